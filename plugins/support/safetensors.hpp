// A strict reader of safetensors headers: u64 little-endian size N, N bytes of JSON, then the bytes
// of the tensors without gaps.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace plait::support {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // as in the file: "F32", "BF16", …
  std::vector<int64_t> shape;
  uint64_t begin = 0, end = 0;  // from the start of the file
};

// The PLAIT_* type of a dtype name, or 0 if Plait has no such type.
uint32_t safetensors_dtype(std::string_view name);

// The entries of a whole file, by offset: they tile the data exactly, each has the size given by
// its shape, and names are unique. Nothing is allocated beyond the needs of the header's own bytes.
// Errors: plait::Error PLAIT_ERR_DATA, "<where>, offset N: found, expected".
std::vector<SafetensorsEntry> read_safetensors(const std::string& where,
                                               std::span<const uint8_t> file);

}  // namespace plait::support
