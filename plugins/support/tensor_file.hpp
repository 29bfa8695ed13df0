// A safetensors file open for reading: first the header, then one tensor at a time straight into
// its own memory. Never mapped, so a file that is truncated meanwhile gives an error and no signal.
#pragma once

#include "kit/safetensors.hpp"
#include "plugins/support/file_bytes.hpp"

#include <vector>

namespace plait::support {

class TensorFile {
 public:
  // Throws the errors of read_file().
  explicit TensorFile(SourceFile source);
  ~TensorFile();
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;
  const SourceFile& source() const { return source_; }
  // Reads the header; entries begin and end in the file. Errors: PLAIT_ERR_DATA.
  std::vector<kit::SafetensorsEntry> entries() const;
  // Errors: PLAIT_ERR_DATA if the file has become shorter, PLAIT_ERR_IO.
  Bytes read(const kit::SafetensorsEntry& entry) const;

 private:
  void read_at(uint64_t offset, uint8_t* out, size_t size) const;
  [[noreturn]] void refuse(const char* what) const;
  SourceFile source_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace plait::support
