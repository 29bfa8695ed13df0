// Arbitrary bytes as an IDX file, plain or gzip: a file of exactly the declared size, or
// PLAIT_ERR_DATA.
#include <cstdlib>

#include "plugins/data/idx/idx_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const plait::support::SourceFile place{"fuzz", "images", "x"};
  plait::support::Bytes bytes(size);
  if (size) std::memcpy(bytes.data(), data, size);
  try {
    const auto file = plait::data::idx::parse(place, std::move(bytes));
    uint64_t values = 1;
    for (const int64_t d : file.header.dims) values *= static_cast<uint64_t>(d);
    if (file.header.offset + values != file.bytes.size()) abort();
  } catch (const plait::Error& e) {
    if (e.code() != PLAIT_ERR_DATA) abort();
  }
  return 0;
}
