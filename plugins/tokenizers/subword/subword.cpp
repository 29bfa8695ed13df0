// tokenizer-subword: tokenizers of published models, read from their files.
#include "plugins/tokenizers/subword/hf.hpp"
#include "plugins/tokenizers/subword/tiktoken.hpp"

namespace {
using namespace plait;

class HfTokenizer : public subword::Tokenizer {
 public:
  HfTokenizer(const Host&, const Options& o) : Tokenizer(subword::read_hf(o)) {}
};
class Tiktoken : public subword::Tokenizer {
 public:
  Tiktoken(const Host&, const Options& o) : Tokenizer(subword::read_tiktoken(o)) {}
};
}  // namespace

PLAIT_PLUGIN("tokenizer-subword", "0.1.0", "Apache-2.0", "Subword tokenizers of published models") {
  static const auto hf = tokenizer<HfTokenizer>(
      "hf", "tokenizer.json of Hugging Face (BPE, Unigram), or vocab.json and merges.txt",
      subword::kHfOptions);
  static const auto tiktoken = tokenizer<Tiktoken>("tiktoken", "ranks of tokens, as tiktoken reads",
                                                   subword::kTiktokenOptions);
  host.add(hf);
  host.add(tiktoken);
}
