// safetensors files: u64 header size, JSON header, then the tensors' bytes, row-major and without
// gaps. The reader is strict. The writer orders and pads as the reference writer does, so equal
// tensors give equal bytes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/hash.hpp"
#include "kit/safetensors.hpp"

namespace plait::checkpoint {

// Limits of the reader; a larger value is PLAIT_ERR_DATA.
using kit::kMaxFileRank;
using kit::kMaxHeaderBytes;
using kit::kMaxNameBytes;
using kit::kMaxTensors;

// The format's name of an element type ("F32", "BF16"); "" for an unknown id.
const char* dtype_name(uint32_t dtype);
uint32_t dtype_from_name(std::string_view name);  // 0 when Plait has no such type
uint64_t dtype_bytes(uint32_t dtype);             // of one element; 0 for an unknown id
int dtype_order(uint32_t dtype);  // the reference writer's rank; -1 for an unknown id

struct TensorEntry {
  std::string name;
  std::string dtype_text;  // as in the file
  uint32_t dtype = 0;      // PLAIT_*; 0: valid in the format, unknown to Plait
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, from the start of the data
  uint64_t bytes() const { return end - begin; }
};

struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> metadata;  // in the file's order
  std::vector<TensorEntry> tensors;  // by offset: together they cover the data exactly
  std::vector<uint32_t> by_name;     // indices of tensors, by name
  uint64_t data_start = 0;           // in the file
  const TensorEntry* find(std::string_view name) const;  // NULL when absent
};

// Parses and checks a header. `bytes` is the file, or its start up to the end of the header;
// `file_size` is the size of the file.
// Errors: PLAIT_ERR_DATA naming `where`, found, expected.
SafetensorsHeader parse_safetensors(std::string_view bytes, uint64_t file_size,
                                    const std::string& where);

// A file open for reading. It is read in pieces and never mapped, so truncation by another process
// is an error and not a signal. Immutable; any thread may read.
class SafetensorsFile {
 public:
  SafetensorsFile(FileSystem& files, const std::string& path);
  const SafetensorsHeader& header() const { return header_; }
  const std::string& path() const { return path_; }
  // Copies `size` bytes of a tensor, starting at its byte `from`. Errors: PLAIT_ERR_DATA when the
  // file has become shorter; PLAIT_ERR_IO.
  void read(const TensorEntry& entry, uint64_t from, void* out, size_t size) const;
  // Visits all bytes of a tensor in pieces of at most kPiece bytes: visit(const std::byte* piece,
  // size_t size). Errors: as read().
  template <class Visit>
  void each_piece(const TensorEntry& entry, Visit&& visit) const;
  // All bytes before the data.
  std::string_view head() const { return head_; }
  uint64_t size() const { return file_->size(); }

  // Small enough to stay in the cache when a caller reads the bytes twice.
  static constexpr size_t kPiece = 1u << 18;

 private:
  std::string path_;
  std::unique_ptr<InputFile> file_;
  std::string head_;
  SafetensorsHeader header_;
};

template <class Visit>
void SafetensorsFile::each_piece(const TensorEntry& entry, Visit&& visit) const {
  std::vector<std::byte> piece(static_cast<size_t>(std::min<uint64_t>(kPiece, entry.bytes())));
  for (uint64_t at = 0; at < entry.bytes();) {
    const auto n = static_cast<size_t>(std::min<uint64_t>(piece.size(), entry.bytes() - at));
    read(entry, at, piece.data(), n);
    visit(static_cast<const std::byte*>(piece.data()), n);
    at += n;
  }
}

// A tensor to write. Host memory, row-major, borrowed for the call.
struct TensorSource {
  std::string name;
  uint32_t dtype = 0;  // PLAIT_*
  std::vector<int64_t> shape;
  const void* data = nullptr;  // may be NULL when empty
  // Instead of data: called when the tensor is written; the bytes are valid until the next call.
  std::function<const void*()> load = {};
  // Instead of both: returns the bytes in pieces, each valid until the next call; empty at the end.
  std::function<std::span<const std::byte>()> next = {};
};

struct WrittenFile {
  uint64_t size = 0;
  Hash128 hash;                  // XXH3-128 of the file
  std::vector<Hash128> tensors;  // of each tensor's bytes, in the order of the argument
};

// Writes a new file (which must not exist) directly from the buffers, and syncs it.
// Errors: PLAIT_ERR_INVALID for a duplicate name, an unknown type, a negative extent or a name over
// the limit; PLAIT_ERR_IO. The file may be left incomplete after an error.
WrittenFile write_safetensors(FileSystem& files, const std::string& path,
                              std::span<const TensorSource> tensors,
                              const std::map<std::string, std::string>& metadata = {
                                  {"format", "pt"}});

}  // namespace plait::checkpoint
