// A model of the core for choosing tile shapes: estimated cycles. Only the ratios matter.
#pragma once

#include <cstdint>

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// What one panel costs per vector of Q read, beyond an aligned hit in the first-level cache.
struct QCost {
  double loads = 1;  // loads per vector: 1 aligned, 2 when every one crosses a line
  double stall = 0;  // extra cycles per vector of Q: sets of the cache that are too full
};

// Most rows a tile of `vecs` vectors may have: accumulators + Q vectors + one broadcast (+ one
// mask on AVX2).
int max_rows(Isa isa, int vecs);

// Widest tile worth generating.
int max_vecs(Isa isa);

// Cycles of one tile over a block of k, including starting and storing it.
double tile_cycles(Isa isa, int rows, int vecs, int64_t k, const QCost& q);

// Cycles to bring one vector of Q into the pack buffer.
double pack_cycles(Isa isa, bool transpose);

// How many lines, each `distance` bytes after the last, the first-level cache keeps at a time: a
// power of two makes them fall on few of its sets.
int64_t lines_kept(int64_t distance);

// Lines of Q a panel may keep in the first-level cache, as a limit for the block of k. `q_k_bytes`
// is the distance of two rows of Q; 0 for a packed panel.
int64_t k_limit(Isa isa, int vecs, int64_t q_k_bytes);

}  // namespace plait::cpu
