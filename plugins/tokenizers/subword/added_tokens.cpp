#include "plugins/tokenizers/subword/added_tokens.hpp"

#include <algorithm>

namespace plait::subword {

void AddedTokens::add(const AddedToken& token, std::string_view as_found) {
  if (as_found.empty()) return;
  trie_.add(as_found, static_cast<int32_t>(tokens_.size()));
  tokens_.push_back(token);
  begins_[static_cast<unsigned char>(as_found[0])] = true;
}

// The size of the longest token that begins at text[at], or 0.
size_t AddedTokens::match(std::string_view text, size_t at, const AddedToken*& token) const {
  size_t longest = 0;
  trie_.prefixes(text.substr(at), [&](size_t size, int32_t index) {
    longest = size;
    token = &tokens_[static_cast<size_t>(index)];
  });
  return longest;
}

void AddedTokens::cut(const Piece& piece, bool plain, const std::function<void(int32_t)>& token,
                      const PieceSink& text) const {
  const std::string_view whole = piece.text;
  size_t done = 0;
  const auto hand_on = [&](size_t end) {
    if (done < end) text({whole.substr(done, end - done), piece.first && done == 0});
  };
  const auto word_at = [&](size_t i) { return is_word(code_at(whole, i).code); };
  for (size_t at = 0; at < whole.size() && !trie_.empty();) {
    const AddedToken* found = nullptr;
    const size_t size =
        begins_[static_cast<unsigned char>(whole[at])] ? match(whole, at, found) : 0;
    if (size == 0) {
      ++at;  // tokens are valid UTF-8: none begins within a character
      continue;
    }
    size_t begin = at, end = at + size;
    at = end;
    if (plain && found->special) continue;
    if (found->single_word &&
        ((begin > 0 && word_at(before(whole, begin))) || (end < whole.size() && word_at(end))))
      continue;
    if (found->lstrip)
      while (begin > done && is_space(code_at(whole, before(whole, begin)).code))
        begin = before(whole, begin);
    if (found->rstrip)
      while (end < whole.size() && is_space(code_at(whole, end).code))
        end += code_at(whole, end).size;
    hand_on(begin);
    token(found->id);
    done = at = end;
  }
  hand_on(whole.size());
}

}  // namespace plait::subword
