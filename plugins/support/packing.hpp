// How documents become samples of T tokens and T labels, the next tokens. Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace plait::support {

// Tokens [begin, begin + n) of the stream, of one document: n - 1 places of a sample, since the
// last token is only a label. n is at least 2.
struct Piece {
  int64_t begin = 0;
  int32_t n = 0;
};

// Samples made of pieces: sample i has pieces [first[i], first[i + 1]).
struct Packing {
  std::vector<Piece> pieces;
  std::vector<int64_t> first;
  int64_t cut = 0;  // documents of which tokens are left out
  int64_t samples() const { return static_cast<int64_t>(first.size()) - 1; }
};

// documents: where they begin in the stream, ascending, and the end. length: T.
//
// The beginning of each document, at most T + 1 tokens.
Packing pack_none(std::span<const int64_t> documents, int64_t length);
// All tokens: documents of more than T + 1 tokens become pieces that overlap by one; the longest
// piece first, each goes into the sample where it leaves the least room (best-fit decreasing,
// Johnson 1973).
Packing pack_best_fit(std::span<const int64_t> documents, int64_t length);

}  // namespace plait::support
