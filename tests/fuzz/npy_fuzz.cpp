// Any bytes as a .npy file: a header whose values fill the rest of the file exactly, or
// PLAIT_ERR_DATA.
#include <cstdlib>

#include "kit/dtype.hpp"
#include "plugins/data/npy/npy_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  try {
    auto header = plait::data::npy::parse({"fuzz", "input", "x"}, {data, size}, size);
    uint64_t bytes = plait::kit::dtype_bytes(header.dtype);
    for (const int64_t d : header.dims) bytes *= static_cast<uint64_t>(d);
    if (bytes == 0 && header.dims.empty()) abort();
    if (header.offset + bytes != size) abort();
    if (header.by_column && plait::data::npy::by_row(header, {data, size}).size() != bytes) abort();
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA) abort();
  }
  return 0;
}
