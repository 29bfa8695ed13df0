// The unigram language model (Kudo 2018): of all ways to write a word in tokens the one whose
// scores, log-probabilities, have the greatest sum.
#pragma once

#include "plugins/tokenizers/subword/byte_trie.hpp"
#include "plugins/tokenizers/subword/model.hpp"

namespace plait::subword {

struct UnigramOptions {
  int32_t unknown = kNoToken;        // stands for characters without token; else those are NoToken
  std::vector<int32_t> byte_tokens;  // (256), for characters without token; empty: none
};

class Unigram : public Model {
 public:
  // The vocabulary maps the text of a token to its id; scores: by id.
  Unigram(const TokenIds& vocabulary, std::vector<double> scores, UnigramOptions options);
  void encode(std::string_view word, Ids& ids) const override;

 private:
  struct Best;  // the best way to write the text up to a place
  std::vector<Best> best_ways(std::string_view word) const;
  void write(std::string_view piece, Ids& ids) const;

  ByteTrie tokens_;
  std::vector<double> scores_;
  double unknown_score_ = 0.0;
  UnigramOptions options_;
};

}  // namespace plait::subword
