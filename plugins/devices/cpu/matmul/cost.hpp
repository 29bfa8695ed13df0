// A cost model of the core, for choosing tile shapes: estimated cycles. Only ratios matter.
#pragma once

#include <cstdint>

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// The cost of one panel per vector of Q read, beyond an aligned hit in the first-level cache.
struct QCost {
  double loads = 1;  // loads per vector: 1 aligned, 2 if every load crosses a line
  double stall = 0;  // extra cycles per vector of Q for overfull cache sets
};

// The most rows that a tile of `vecs` vectors may have: accumulators + Q vectors + one broadcast (+
// one mask on AVX2).
int max_rows(Isa isa, int vecs);

// The widest tile worth generating.
int max_vecs(Isa isa);

// Cycles of one tile over a block of k, including its start and its store.
double tile_cycles(Isa isa, int rows, int vecs, int64_t k, const QCost& q);

// Cycles to copy one vector of Q into the pack buffer.
double pack_cycles(Isa isa, bool transpose);

// How many lines, `distance` bytes apart, the first-level cache can hold at a time: a power of two
// maps them to few of its sets.
int64_t lines_kept(int64_t distance);

// Lines of Q that a panel may keep in the first-level cache, as a limit for the block of k.
// `q_k_bytes` is the distance between rows of Q; 0 for a packed panel.
int64_t k_limit(Isa isa, int vecs, int64_t q_k_bytes);

}  // namespace plait::cpu
