// A strict reader of safetensors headers: u64 little-endian size N, N bytes of JSON, then the tensors' bytes without gaps.
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

// The PLAIT_* type of a dtype name, or 0 where Plait has none.
uint32_t safetensors_dtype(std::string_view name);

// The entries of a whole file, by offset: they tile the data exactly, each of the size its shape says, names are unique.
// Nothing is allocated beyond what the header's own bytes ask for.
// Errors: plait::Error PLAIT_ERR_DATA, "<where>, offset N: found, expected".
std::vector<SafetensorsEntry> read_safetensors(const std::string& where,
                                               std::span<const uint8_t> file);

}  // namespace plait::support
