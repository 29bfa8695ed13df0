// How a large product is blocked: first by k; within each block of k, a block of rows of A is
// packed to stay in the second-level cache, and panels of B, packed one after another to stay in
// the first, are multiplied with it by the functions of jit_kernel.hpp (P = A, Q = B, D = C). Pure.
//
// A packed tile of A is (k, slots): `slots` floats for each k, of which the tile's rows are used.
#pragma once

#include <string>
#include <vector>

#include "plugins/devices/cpu/matmul/plan.hpp"

namespace plait::cpu {

// The work of one thread: all batch items, and the tiles of rows and panels in these ranges.
struct BlockedRange {
  int64_t first_item, last_item;
  int64_t first_tile, last_tile;
  int64_t first_panel, last_panel;
};

struct BlockedPlan {
  std::string refusal;  // empty if the plan is usable

  MatmulDesc desc;
  Isa isa = Isa::plain;
  int rows_hi = 0;  // tiles_hi tiles of rows_hi rows, then tiles_lo of rows_lo
  int rows_lo = 0;
  int64_t tiles_hi = 0;
  int64_t tiles_lo = 0;
  int slots = 0;
  int64_t panels = 0;  // of panel_lanes columns each
  int64_t panel_lanes = 0;
  int64_t last_panel_lanes = 0;
  int64_t tiles_per_block = 0;  // tiles of A packed at a time
  // Both operands are of bf16: k is counted in pairs of summands here. If C is, too, all of k is
  // packed for a block of rows, and a panel of C is made as f32 in the workspace.
  bool pairs = false;
  bool whole_k() const { return pairs && desc.half_c != Half::none; }
  std::vector<KBlock> k_blocks;
  int threads = 1;
  double cycles = 0;  // estimate, comparable with that of JitPlan

  // Of B as it lies; 0: it is not read in its order.
  int64_t b_bytes() const {
    return pairs ? 2 : desc.widen_b == nullptr && !desc.quantized_b ? 4 : 0;
  }
  int64_t tiles() const { return tiles_hi + tiles_lo; }
  int64_t first_row(int64_t tile) const;
  // The work of thread `thread` out of `threads`; depends on nothing else.
  BlockedRange thread_range(int thread, int of_threads) const;

  size_t a_floats() const;  // of the packed block of A
  size_t b_floats() const;  // of the packed panel of B
  // Of rows of 16, 8 or 4 bits before they are packed, or of a panel of C; 0 without any.
  size_t wide_floats() const;
  size_t thread_floats() const { return a_floats() + b_floats() + wide_floats(); }
  size_t squares_floats() const;  // (batch, panels, tiles, lanes); 0 if not requested
  size_t workspace_bytes() const {
    return (static_cast<size_t>(threads) * thread_floats() + squares_floats()) * sizeof(float);
  }
};

// pairs: as BlockedPlan; then the desc has two operands of bf16, and C of f32 or bf16.
BlockedPlan plan_blocked(const MatmulDesc& desc, Isa isa, bool pairs = false);

// The spec of the function for one block of k and the last panel or any other.
KernelSpec blocked_spec(const BlockedPlan& plan, bool last_panel, size_t k_block);

}  // namespace plait::cpu
