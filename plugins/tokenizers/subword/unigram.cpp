#include "plugins/tokenizers/subword/unigram.hpp"

#include <algorithm>
#include <utility>

#include "plugins/tokenizers/subword/unicode.hpp"

namespace plait::subword {

Unigram::Unigram(const TokenIds& vocabulary, std::vector<double> scores, UnigramOptions options)
    : scores_(std::move(scores)), options_(std::move(options)) {
  for (const auto& [text, id] : vocabulary) tokens_.add(text, id);
  constexpr double kPenalty = 10.0;  // as SentencePiece's
  unknown_score_ = *std::min_element(scores_.begin(), scores_.end()) - kPenalty;
}

struct Unigram::Best {
  double score = 0.0;
  size_t begin = SIZE_MAX;  // of the last token; SIZE_MAX: no way leads here
  int32_t id = kNoToken;    // of the last token; kNoToken: a character without one
};

std::vector<Unigram::Best> Unigram::best_ways(std::string_view word) const {
  std::vector<Best> best(word.size() + 1);
  for (size_t at = 0, n; at < word.size(); at += n) {
    n = code_at(word, at).size;
    const auto offer = [&](size_t size, double score, int32_t id) {
      Best& end = best[at + size];
      if (end.begin != SIZE_MAX && best[at].score + score <= end.score) return;
      end = {best[at].score + score, at, id};
    };
    bool one = false;  // the character is a token
    tokens_.prefixes(word.substr(at), [&](size_t size, int32_t id) {
      offer(size, scores_[static_cast<size_t>(id)], id == options_.unknown ? kNoToken : id);
      one = one || size == n;
    });
    if (!one) offer(n, unknown_score_, kNoToken);
  }
  return best;
}

void Unigram::encode(std::string_view word, Ids& ids) const {
  const std::vector<Best> best = best_ways(word);
  std::vector<std::pair<size_t, size_t>> pieces;  // last first; neighbours without token are one
  bool unknown = false;
  for (size_t end = word.size(); end > 0; end = best[end].begin) {
    if (unknown && best[end].id == kNoToken)
      pieces.back().first = best[end].begin;
    else
      pieces.emplace_back(best[end].begin, end);
    unknown = best[end].id == kNoToken;
  }
  for (auto piece = pieces.rbegin(); piece != pieces.rend(); ++piece)
    write(word.substr(piece->first, piece->second - piece->first), ids);
}

void Unigram::write(std::string_view piece, Ids& ids) const {
  int32_t whole = kNoToken;
  tokens_.prefixes(piece, [&](size_t size, int32_t id) {
    if (size == piece.size()) whole = id;
  });
  if (whole != kNoToken) {
    ids.push_back(whole);
  } else if (!options_.byte_tokens.empty()) {
    for (const char c : piece) ids.push_back(options_.byte_tokens[static_cast<unsigned char>(c)]);
  } else if (options_.unknown != kNoToken) {
    ids.push_back(options_.unknown);
  } else {
    throw NoToken{std::string(piece)};
  }
}

}  // namespace plait::subword
