#include "plugins/tokenizers/subword/bpe.hpp"

#include <algorithm>
#include <queue>
#include <utility>

#include "plugins/tokenizers/subword/unicode.hpp"

namespace plait::subword {

Merges merges_of_ranks(const TokenIds& ids) {
  std::vector<std::pair<std::pair<int32_t, int32_t>, int32_t>> found;
  for (const auto& [text, id] : ids)
    for (size_t cut = 1; cut < text.size(); ++cut) {
      const std::string_view whole = text;
      const int32_t left = find_token(ids, whole.substr(0, cut));
      const int32_t right = left == kNoToken ? kNoToken : find_token(ids, whole.substr(cut));
      if (right != kNoToken) found.push_back({{left, right}, id});
    }
  Merges merges(found.size());
  for (const auto& [pair, id] : found)
    merges.add(pair.first, pair.second, {static_cast<uint32_t>(id), id});
  return merges;
}

Bpe::Bpe(TokenIds vocabulary, Merges merges, BpeOptions options)
    : vocabulary_(std::move(vocabulary)), merges_(std::move(merges)), options_(std::move(options)) {
  for (unsigned byte = 0; byte < 256; ++byte) {
    const char text = static_cast<char>(byte);
    of_byte_[byte] = find_token(vocabulary_, {&text, 1});
  }
}

void Bpe::encode(std::string_view word, Ids& ids) const {
  if (options_.ignore_merges) {
    if (const int32_t id = find_token(vocabulary_, word); id != kNoToken) {
      ids.push_back(id);
      return;
    }
  }
  constexpr size_t kShort = 48;
  Ids symbols;
  symbols.reserve(word.size());
  options_.bytes ? begin_bytes(word, symbols) : begin_characters(word, symbols);
  symbols.size() <= kShort ? merge_short(symbols) : merge_long(symbols);
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

void Bpe::begin_bytes(std::string_view word, Ids& symbols) const {
  bool fuses = false;
  for (size_t i = 0; i < word.size(); ++i) {
    const int32_t id = of_byte_[static_cast<unsigned char>(word[i])];
    if (id == kNoToken) {
      no_token(word.substr(i, 1), fuses, symbols);
    } else {
      symbols.push_back(id);
      fuses = false;
    }
  }
}

void Bpe::begin_characters(std::string_view word, Ids& symbols) const {
  bool fuses = false;
  std::string text;
  for (size_t i = 0, n; i < word.size(); i += n) {
    n = code_at(word, i).size;
    text.clear();
    if (i > 0) text += options_.prefix;
    text += word.substr(i, n);
    if (i + n == word.size()) text += options_.suffix;
    const int32_t id = find_token(vocabulary_, text);
    if (id == kNoToken) {
      no_token(text, fuses, symbols);
    } else {
      symbols.push_back(id);
      fuses = false;
    }
  }
}

// `fuses`: the symbol before is the unknown token.
void Bpe::no_token(std::string_view text, bool& fuses, Ids& symbols) const {
  if (!options_.byte_tokens.empty()) {
    for (const char c : text)
      symbols.push_back(options_.byte_tokens[static_cast<unsigned char>(c)]);
    fuses = false;
  } else if (options_.unknown != kNoToken) {
    if (!fuses || !options_.fuse_unknown) symbols.push_back(options_.unknown);
    fuses = true;
  } else {
    throw NoToken{std::string(text)};
  }
}

// Looks through all pairs for each merge: the fastest way for the words that text is made of.
void Bpe::merge_short(Ids& symbols) const {
  constexpr uint32_t kNone = UINT32_MAX;
  size_t n = symbols.size();
  uint32_t ranks[64];  // of the pairs (i, i + 1)
  const auto rank = [&](size_t i) {
    const Merge* merge = merges_.find(symbols[i], symbols[i + 1]);
    return merge ? merge->rank : kNone;
  };
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = rank(i);
  while (n > 1) {
    const size_t least = static_cast<size_t>(std::min_element(ranks, ranks + n - 1) - ranks);
    if (ranks[least] == kNone) break;
    symbols[least] = merges_.find(symbols[least], symbols[least + 1])->id;
    std::copy(symbols.begin() + static_cast<ptrdiff_t>(least) + 2,
              symbols.begin() + static_cast<ptrdiff_t>(n),
              symbols.begin() + static_cast<ptrdiff_t>(least) + 1);
    std::copy(ranks + least + 1, ranks + n - 1, ranks + least);
    --n;
    if (least > 0) ranks[least - 1] = rank(least - 1);
    if (least + 1 < n) ranks[least] = rank(least);
  }
  symbols.resize(n);
}

// A queue of the pairs, O(n log n): a word may be as long as the text.
void Bpe::merge_long(Ids& symbols) const {
  struct Pair {
    uint32_t rank;
    uint32_t left;   // place of the left token
    int32_t ids[2];  // as they were; else the pair is stale
    int32_t merged;
    bool operator<(const Pair& o) const {  // the queue's top is the greatest
      return std::pair(rank, left) > std::pair(o.rank, o.left);
    }
  };
  const uint32_t n = static_cast<uint32_t>(symbols.size());
  std::vector<uint32_t> next(n), previous(n);
  for (uint32_t i = 0; i < n; ++i) next[i] = i + 1, previous[i] = i - 1;  // n, and -1: none
  std::priority_queue<Pair> queue;
  const auto offer = [&](uint32_t left) {
    const uint32_t right = next[left];
    if (right >= n) return;
    if (const Merge* merge = merges_.find(symbols[left], symbols[right]))
      queue.push({merge->rank, left, {symbols[left], symbols[right]}, merge->id});
  };
  for (uint32_t i = 0; i + 1 < n; ++i) offer(i);
  while (!queue.empty()) {
    const Pair pair = queue.top();
    queue.pop();
    const uint32_t right = next[pair.left];
    if (symbols[pair.left] != pair.ids[0] || right >= n || symbols[right] != pair.ids[1]) continue;
    symbols[pair.left] = pair.merged;
    symbols[right] = kNoToken;
    next[pair.left] = next[right];
    if (next[right] < n) previous[next[right]] = pair.left;
    if (previous[pair.left] < n) offer(previous[pair.left]);
    offer(pair.left);
  }
  std::erase(symbols, kNoToken);
}

}  // namespace plait::subword
