// A subword tokenizer in parts: normalizer, splitters, model, decoders, and the tokens around them.
#pragma once

#include <plait/plugin.hpp>

#include <memory>
#include <mutex>
#include <vector>

#include "plugins/tokenizers/subword/added_tokens.hpp"
#include "plugins/tokenizers/subword/decode.hpp"
#include "plugins/tokenizers/subword/model.hpp"
#include "plugins/tokenizers/subword/normalize.hpp"

namespace plait::subword {

// What a file says; the parts of a Tokenizer.
struct Parts {
  std::string who;           // of messages: "tokenizer.hf"
  NormalizerPtr normalizer;  // may be null
  std::vector<SplitterPtr> splitters;
  std::unique_ptr<const Model> model;
  std::vector<DecoderPtr> decoders;
  std::vector<std::string> texts;  // of the tokens, by id; ids without token are empty
  std::vector<AddedToken> added;
  Ids before, behind;                                   // of a text, with PLAIT_ENCODE_WRAP
  std::vector<std::pair<std::string, uint32_t>> roles;  // special tokens and PLAIT_TOKEN_*
  // Decoding is the texts one after the other: a decoder that was applied to each of them.
  bool texts_are_decoded = false;
  uint64_t fingerprint = 0;
};

// [thread: any]
class Tokenizer {
 public:
  explicit Tokenizer(Parts parts);
  void info(plait_tokenizer_info& out) const;
  void encode(std::string_view text, uint32_t flags, IdWriter& to) const;
  void decode(std::span<const int32_t> ids, uint32_t flags, BytesWriter& to) const;

 private:
  class Encoding;  // one call of encode()
  std::unique_ptr<WordCache> take_cache() const;
  void give_back(std::unique_ptr<WordCache> cache) const;

  Parts parts_;
  AddedTokens as_written_, in_normalized_;
  std::vector<bool> special_;  // by id
  std::vector<plait_special_token> specials_;
  // One for each thread that encodes at the moment: taken and given back once a text.
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<WordCache>> caches_;
};

}  // namespace plait::subword
