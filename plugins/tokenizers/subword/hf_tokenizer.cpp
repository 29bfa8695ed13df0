// tokenizer.json: the whole of it.
#include "plugins/tokenizers/subword/hf_parts.hpp"

namespace plait::subword {
namespace {
void read_added(const JsonPlace& list, TokenIds& ids, std::vector<AddedToken>& added) {
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonPlace token = list[i];
    const bool special = token["special"].flag(false);
    added.push_back({static_cast<int32_t>(token["id"].whole(0, kMostIds - 1)),
                     token["content"].text(), special, token["single_word"].flag(false),
                     token["lstrip"].flag(false), token["rstrip"].flag(false),
                     token["normalized"].flag(!special)});
    ids[added.back().text] = added.back().id;
  }
}
}  // namespace

void set_texts(const TokenIds& ids, Parts& parts) {
  const auto set = [&](int32_t id, const std::string& text) {
    const auto i = static_cast<size_t>(id);
    if (i >= parts.texts.size()) parts.texts.resize(i + 1);
    parts.texts[i] = text;
  };
  for (const auto& [text, id] : ids) set(id, text);
  // The later one of two with the same id or the same content.
  for (const AddedToken& token : parts.added) set(token.id, token.text);
}

void decode_texts(Parts& parts) {
  parts.decoders[0]->apply(parts.texts);
  parts.texts_are_decoded = true;
}

void read_tokenizer_json(const JsonPlace& root, Parts& parts) {
  TokenIds ids;
  parts.normalizer = read_normalizer(root["normalizer"]);
  Splitting splitting = read_pre_tokenizer(root["pre_tokenizer"]);
  parts.splitters = std::move(splitting.steps);
  parts.model = read_model(root["model"], splitting.bytes, ids);
  read_added(root["added_tokens"], ids, parts.added);
  set_texts(ids, parts);
  const JsonPlace decoder = root["decoder"];
  parts.decoders = read_decoder(decoder);
  if (!decoder.null() && decoder["type"].text() == "ByteLevel") decode_texts(parts);
  read_post_processor(root["post_processor"], ids, parts.before, parts.behind);
}

}  // namespace plait::subword
