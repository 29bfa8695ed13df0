// A strict reader of safetensors headers: u64 little-endian size N, N bytes of JSON, then the bytes
// of the tensors without gaps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kit/json_cursor.hpp"

namespace plait::kit {

// Limits; a larger value is an error.
inline constexpr uint64_t kMaxHeaderBytes = 100'000'000;
inline constexpr size_t kMaxTensors = 1'000'000, kMaxNameBytes = 4096, kMaxFileRank = 16;

// An element type of the format.
struct SafetensorsType {
  std::string_view name;  // "BF16"
  uint32_t bits = 0;
  uint32_t dtype = 0;  // PLAIT_*; 0: Plait has no such type
};
// In the order of the reference implementation, by which its writer sorts tensors.
std::span<const SafetensorsType> safetensors_types();
const SafetensorsType* safetensors_type(std::string_view name);  // nullptr: there is none

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as in the file: "F32", "BF16", ...
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // bytes, from the start of the data
};

struct SafetensorsHeader {
  std::vector<std::pair<std::string, std::string>> metadata;  // in the file's order
  std::vector<SafetensorsEntry> entries;  // by offset: together they cover the data exactly
  std::vector<uint32_t> by_name;          // indices of entries, by name
  uint64_t data_start = 0;                // in the file
};

// bytes: the file, or its start up to the end of the header. Each entry has the size that its shape
// says; names are unique. Nothing is allocated beyond the needs of the header's own bytes. Throws
// Damaged.
SafetensorsHeader read_safetensors_header(std::string_view bytes, uint64_t file_size,
                                          const std::string& where);

}  // namespace plait::kit
