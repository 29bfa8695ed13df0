// Tokens that are found in a text as they are written, before it is cut into words.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/tokenizers/subword/byte_trie.hpp"
#include "plugins/tokenizers/subword/split.hpp"

namespace plait::subword {

struct AddedToken {
  int32_t id;
  std::string text;
  bool special;                      // stands for no text
  bool single_word, lstrip, rstrip;  // stands between no letters; takes the spaces before, behind
  bool normalized;                   // found in the normalized text, else in the text as it is
};

// Finds the longest of them at each place.
class AddedTokens {
 public:
  // as_found: the text of a token in the texts to be searched.
  void add(const AddedToken& token, std::string_view as_found);

  // Calls token(id) and text(piece) in the order of the text. plain: special tokens are ordinary
  // text. [thread: any]
  void cut(const Piece& piece, bool plain, const std::function<void(int32_t)>& token,
           const PieceSink& text) const;

 private:
  size_t match(std::string_view text, size_t at, const AddedToken*& token) const;

  ByteTrie trie_;  // indices of tokens_
  std::vector<AddedToken> tokens_;
  bool begins_[256] = {};  // by first byte
};

}  // namespace plait::subword
