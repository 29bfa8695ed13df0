// Arbitrary bytes as a .model file of SentencePiece: an error; or ids below the size of the
// vocabulary, which decode to some text.
#include <cstdlib>

#include "plugins/tokenizers/sentencepiece/model.hpp"
#include "tests/fuzz/encode.hpp"

using namespace plait;

namespace {

constexpr std::string_view kTexts[] = {"", "the cat sat on a mat", "  two  spaces ",
                                       "AB <sep>a<ctl>", "caf\u00E9 \u65E5\u672C \U0001F642\n\t"};

void try_text(const sentencepieces::Model& model, std::string_view text) {
  plait_tokenizer_info info{};
  model.info(info);
  const std::vector<int32_t> ids = fuzz::encode(model, text);
  for (const int32_t id : ids)
    if (id < 0 || id >= info.vocabulary) std::abort();
  for (uint32_t i = 0; i < info.n_specials; ++i)
    if (info.specials[i].id < 0 || info.specials[i].id >= info.vocabulary) std::abort();
  BytesWriter nowhere([](void*, const char*, uint64_t) -> uint32_t { return 0; }, nullptr);
  model.decode(ids, 0, nowhere);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const support::SourceFile file{"tokenizer.sentencepiece", "path", "fuzz.model"};
  try {
    sentencepieces::Model model;
    model.read(file, {data, size});
    for (const std::string_view text : kTexts) try_text(model, text);
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA) std::abort();
  }
  return 0;
}
