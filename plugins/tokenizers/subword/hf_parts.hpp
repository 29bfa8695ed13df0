// The parts of a tokenizer.json: the file that the library tokenizers of Hugging Face writes.
#pragma once

#include "plugins/support/json_file.hpp"
#include "plugins/tokenizers/subword/bpe.hpp"
#include "plugins/tokenizers/subword/patterns.hpp"
#include "plugins/tokenizers/subword/tokenizer.hpp"

namespace plait::subword {

using support::JsonPlace;
using support::parse_json;

// Each takes the value of a key of the file, which may be null: the part is missing.
// Errors: PLAIT_ERR_DATA; PLAIT_ERR_UNIMPLEMENTED for a type that is not known.
NormalizerPtr read_normalizer(const JsonPlace& place);
struct Splitting {
  std::vector<SplitterPtr> steps;
  bool bytes = false;  // the last of them makes bytes of words
};
Splitting read_pre_tokenizer(const JsonPlace& place);
std::vector<DecoderPtr> read_decoder(const JsonPlace& place);
// Adds the tokens around a text.
void read_post_processor(const JsonPlace& place, const TokenIds& ids, Ids& before, Ids& behind);

// Ids by text, of an object.
TokenIds read_vocabulary(const JsonPlace& place);
// The model, and its vocabulary. bytes: words are bytes.
std::unique_ptr<const Model> read_model(const JsonPlace& place, bool bytes, TokenIds& vocabulary);
// Reads merges, least rank first.
class MergeReader {
 public:
  MergeReader(const TokenIds& vocabulary, size_t n, std::string prefix);
  // Adds the next one. Returns what is wrong with it, or nothing.
  std::string add(std::string_view left, std::string_view right);
  // "left right", as files write it.
  std::string add(std::string_view line);
  Merges take() { return std::move(merges_); }

 private:
  const TokenIds& vocabulary_;
  std::string prefix_;  // of a token within a word: the right one loses it
  uint32_t rank_ = 0;
  Merges merges_;
};
std::unique_ptr<const Model> make_bpe(const TokenIds& vocabulary, Merges merges,
                                      BpeOptions options);

// Sets the texts of all tokens, added ones too, by id.
void set_texts(const TokenIds& ids, Parts& parts);
// Applies the one decoder, which looks at each token alone, to the texts, once for all.
void decode_texts(Parts& parts);
// The value of a whole tokenizer.json: everything but roles and fingerprint.
void read_tokenizer_json(const JsonPlace& root, Parts& parts);

}  // namespace plait::subword
