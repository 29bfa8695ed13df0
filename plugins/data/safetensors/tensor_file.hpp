// A safetensors file open for reading: header first, then one tensor at a time straight into its own memory. Never mapped, so a
// file that somebody cuts short meanwhile is an error and no signal.
#pragma once

#include "plugins/data/bytes.hpp"
#include "plugins/support/safetensors.hpp"

#include <vector>

namespace plait::data {

class TensorFile {
 public:
  // Errors: those of read_file().
  explicit TensorFile(SourceFile source);
  ~TensorFile();
  TensorFile(const TensorFile&) = delete;
  TensorFile& operator=(const TensorFile&) = delete;
  const SourceFile& source() const { return source_; }
  // What the header says. Errors: PLAIT_ERR_DATA.
  std::vector<support::SafetensorsEntry> entries() const;
  // Errors: PLAIT_ERR_DATA when the file has become shorter, PLAIT_ERR_IO.
  Bytes read(const support::SafetensorsEntry& entry) const;

 private:
  void read_at(uint64_t offset, uint8_t* out, size_t size) const;
  [[noreturn]] void refuse(const char* what) const;
  SourceFile source_;
  int fd_ = -1;
  uint64_t size_ = 0;
};

}  // namespace plait::data
