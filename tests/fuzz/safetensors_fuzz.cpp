// Arbitrary bytes as a safetensors file, read by the data plugin's reader: entries that tile the
// data, or PLAIT_ERR_DATA.
#include <plait/plugin/error.hpp>

#include <cstdlib>

#include "plugins/support/safetensors.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    uint64_t at = 0;
    for (const auto& e : plait::support::read_safetensors("fuzz", {data, size})) {
      if (e.end < e.begin || (at != 0 && e.begin != at) || e.end > size) abort();
      at = e.end;
    }
    if (at != 0 && at != size) abort();
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA) abort();
  }
  return 0;
}
