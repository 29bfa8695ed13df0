// Attention over a cache where few queries of a sample read many keys; a separate header, because
// the vectorised code is compiled several times. Letters as in kit/ops/attention_cached.hpp.
#pragma once

#include "plugins/devices/cpu/kernels/attention_args.hpp"

namespace plait::cpu {

// Keys of one unit of work. Units of one query are merged in the order of their keys, so results do
// not depend on the number of threads.
constexpr int64_t kKeyChunk = 512;

// Rows of scores against the same keys: of the query heads [head, head + heads), all of one key
// head, and the queries [query, query + queries). That of query `query + i` and head `head + h` is
// row i * heads + h.
struct DecodeRows {
  int64_t sample = 0, group = 0;
  int64_t head = 0, heads = 0;
  int64_t query = 0, queries = 0;
  kit::KeyRange keys = {};  // those to read, of which each query sees its own
  int64_t rows() const { return heads * queries; }
};

// The softmax of these rows so far.
struct DecodeState {
  float* o = nullptr;     // (rows, e), not yet divided by the sums
  int64_t o_row = 0;      // from row to row of o
  float* most = nullptr;  // (rows) the greatest score
  float* sum = nullptr;   // (rows) of exp(score - most)
};
inline DecodeState decode_state(const AttentionArgs& x, int64_t rows, float* at) {
  const int64_t o_row = row_distance(x.a.value);
  return {at, o_row, at + rows * o_row, at + rows * o_row + rows};
}
// Floats of a state, and of the scratch in which one is computed: q and scores.
inline int64_t decode_state_floats(const AttentionArgs& x, int64_t rows) {
  return padded_columns(rows * (row_distance(x.a.value) + 2));
}
inline int64_t decode_scratch_floats(const AttentionArgs& x, int64_t rows) {
  return rows * (row_distance(x.a.qk) + row_distance(kKeyBlock));
}

// Computes the state of `rows` over their keys.
using DecodeAttend = void (*)(const AttentionArgs&, const DecodeRows& rows, float* scratch,
                              const DecodeState& to);
// Writes x.out of `rows`: the result of the n states (the same rows over chunks of their keys, one
// after the other) of which `first` is the first; the next lies `distance` floats behind it.
// Changes the first.
using DecodeFinish = void (*)(const AttentionArgs&, const DecodeRows& rows,
                              const DecodeState& first, int64_t n, int64_t distance);

}  // namespace plait::cpu
