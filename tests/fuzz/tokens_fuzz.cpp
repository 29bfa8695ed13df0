// The index of token ids: any bytes give an error or runs that lie within the .bin file.
#include <cstdlib>

#include "plugins/data/tokens/index_file.hpp"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace plait;
  constexpr uint64_t kBinBytes = 1000;
  const support::SourceFile source{"data.tokens", "path", "fuzz.idx"};
  try {
    const auto index = data::tokens::parse_index(source, {data, size}, kBinBytes);
    int64_t tokens = 0;
    for (const data::tokens::Run& run : index.runs) {
      const uint64_t bytes =
          static_cast<uint64_t>(run.tokens) * data::tokens::token_bytes(index.type);
      if (run.tokens <= 0 || bytes > kBinBytes || run.byte > kBinBytes - bytes) std::abort();
      if (run.document < 0 || run.document >= index.documents) std::abort();
      tokens += run.tokens;
    }
    if (tokens != index.tokens) std::abort();
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA) std::abort();
  }
  return 0;
}
