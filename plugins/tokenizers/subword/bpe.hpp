// Byte-pair encoding (Sennrich et al. 2016): a word begins as characters or bytes; the neighbours
// whose merge has the least rank become one token, leftmost first, until none can.
#pragma once

#include "plugins/tokenizers/subword/model.hpp"
#include "plugins/tokenizers/subword/pair_table.hpp"

namespace plait::subword {

// What two tokens become, and how early.
struct Merge {
  uint32_t rank;
  int32_t id;
};
using Merges = PairTable<Merge>;

struct BpeOptions {
  bool bytes = false;          // a word begins as bytes, and the keys of the vocabulary are bytes
  bool ignore_merges = false;  // a word that is a token is that token
  bool fuse_unknown = false;   // neighbours without token are one unknown token
  int32_t unknown = kNoToken;  // stands for characters without token; else those are NoToken
  std::vector<int32_t> byte_tokens;  // (256), for characters without token; empty: none
  std::string prefix, suffix;        // of every character but the first; of the last
};

class Bpe : public Model {
 public:
  // The vocabulary maps the text of a token to its id.
  Bpe(TokenIds vocabulary, Merges merges, BpeOptions options);
  void encode(std::string_view word, Ids& ids) const override;

 private:
  void begin_bytes(std::string_view word, Ids& symbols) const;
  void begin_characters(std::string_view word, Ids& symbols) const;
  void no_token(std::string_view text, bool& fuses, Ids& symbols) const;
  void merge_short(Ids& symbols) const;
  void merge_long(Ids& symbols) const;

  TokenIds vocabulary_;
  Merges merges_;
  BpeOptions options_;
  int32_t of_byte_[256];
};

// The merges of a vocabulary whose ids are ranks (tiktoken): two tokens whose joined bytes are a
// token. ids: bytes to rank.
Merges merges_of_ranks(const TokenIds& ids);

}  // namespace plait::subword
