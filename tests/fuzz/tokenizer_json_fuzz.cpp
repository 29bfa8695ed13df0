// A tokenizer.json and, behind a byte 0, a text: an error, or ids below the size of the vocabulary
// which decode to some text, the same ones the second time.
#include <algorithm>
#include <cstdlib>

#include "kit/valid_utf8.hpp"
#include "plugins/tokenizers/subword/hf_parts.hpp"
#include "tests/fuzz/encode.hpp"

using namespace plait;

namespace {

void try_text(const subword::Tokenizer& tokenizer, std::string_view text) {
  std::string repaired;
  if (kit::replace_invalid(text, repaired).n > 0) text = repaired;
  const std::vector<int32_t> ids = fuzz::encode(tokenizer, text);
  plait_tokenizer_info info{};
  tokenizer.info(info);
  for (const int32_t id : ids)
    if (id < 0 || id >= info.vocabulary) std::abort();
  BytesWriter nowhere([](void*, const char*, uint64_t) -> uint32_t { return 0; }, nullptr);
  tokenizer.decode(ids, 0, nowhere);
  if (fuzz::encode(tokenizer, text) != ids) std::abort();  // now from the cache of words
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const support::SourceFile file{"tokenizer.hf", "path", "fuzz.json"};
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  const std::string_view content = all.substr(0, all.find('\0'));
  try {
    const nlohmann::json json = subword::parse_json(file, {data, content.size()});
    subword::Parts parts;
    parts.who = "tokenizer.hf";
    const subword::JsonPlace root(file, json, "");
    root.object();
    subword::read_tokenizer_json(root, parts);
    const subword::Tokenizer tokenizer(std::move(parts));
    try_text(tokenizer, all.substr(std::min(content.size() + 1, size)));
  } catch (const Error& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_UNIMPLEMENTED) std::abort();
  }
  return 0;
}
