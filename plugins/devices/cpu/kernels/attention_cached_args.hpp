// Attention over a cache where few queries of a sample read many keys; a separate header, because
// the vectorised code is compiled several times. Letters as in kit/ops/attention_cached.hpp.
#pragma once

#include "plugins/devices/cpu/kernels/attention_args.hpp"

namespace plait::cpu {

// Keys of one unit of work. Units of one query are merged in the order of their keys, so results do
// not depend on the number of threads.
constexpr int64_t kKeyChunk = 512;

// The query heads of a key head.
struct GroupHeads {
  int64_t first = 0, count = 0;
};

// Queries of a sample that read the same keys of some key heads. Each key head has rows of its own:
// that of query `query + i` and its head h is row i * count + h.
struct DecodeRows {
  int64_t sample = 0;
  int64_t query = 0, queries = 0;
  int64_t group = 0, groups = 0;      // the key heads [group, group + groups)
  const GroupHeads* heads = nullptr;  // (groups)
  kit::KeyRange keys = {};            // those to read, of which each query sees its own
};

// The softmax of the rows of one key head so far.
struct DecodeState {
  float* o = nullptr;     // (rows, e), not yet divided by the sums
  int64_t o_row = 0;      // from row to row of o
  float* most = nullptr;  // (rows) the greatest score
  float* sum = nullptr;   // (rows) of exp(score - most)
};
// States lie one after the other, each of them with space for `rows` rows.
struct DecodeStates {
  float* at = nullptr;
  int64_t rows = 0, o_row = 0;
  int64_t floats() const { return padded_columns(rows * (o_row + 2)); }
  DecodeState operator[](int64_t i) const {
    float* state = at + i * floats();
    return {state, o_row, state + rows * o_row, state + rows * o_row + rows};
  }
  DecodeStates from(int64_t i) const { return {at + i * floats(), rows, o_row}; }
};
// Floats of scratch in which the states of so many rows are computed, of which a key head has at
// most `rows`: q, scores, and a block that was widened.
inline int64_t decode_scratch_floats(const AttentionArgs& x, int64_t all_rows, int64_t rows) {
  return all_rows * row_distance(x.a.qk) + rows * row_distance(kKeyBlock) + x.widened_k() +
         x.widened_v();
}

// Computes the state of each key head over the keys of `rows`.
using DecodeAttend = void (*)(const AttentionArgs&, const DecodeRows& rows, float* scratch,
                              const DecodeStates& to);
// Writes x.out of `rows`, which have one key head: the result of the n states of chunks of their
// keys, one after the other, `distance` states apart. Changes the first.
using DecodeFinish = void (*)(const AttentionArgs&, const DecodeRows& rows,
                              const DecodeStates& states, int64_t n, int64_t distance);

}  // namespace plait::cpu
