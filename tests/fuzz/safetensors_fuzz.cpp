// Arbitrary bytes as a safetensors file, read by the reader of the engine and of the data plugin:
// entries that tile the data, or an error.
#include <cstdlib>

#include "kit/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    const auto header = plait::kit::read_safetensors_header(
        {reinterpret_cast<const char*>(data), size}, size, "fuzz");
    uint64_t at = 0;
    for (const auto& e : header.entries) {
      if (e.end < e.begin || e.begin != at) abort();
      at = e.end;
    }
    if (header.data_start + at != size) abort();
  } catch (const plait::kit::Damaged&) {
  }
  return 0;
}
