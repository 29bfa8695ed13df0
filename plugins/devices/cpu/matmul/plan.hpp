// How a product is split for the generated kernels: a pure function of the desc and the instruction
// set.
//
// A generated kernel computes D[rows,lanes] += P[rows,k] * Q[k,lanes]: it broadcasts single
// elements of P and multiplies them with vectors of Q, holding a tile of D in registers. The
// product C = A*B is mapped to it
//   directly: P = A, Q = B, D = C; or
//   transposed:  P = B^T, Q = A^T, D = C^T, with D in the workspace and transposed at the end.
// The lanes of Q must be contiguous. If the operand is stored the other way it is packed, one block
// of k at a time, just before use. Transposing wins if A is the smaller operand to transpose.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {

// One generated function: processes a panel of `vecs` vectors, tile by tile, over one block of k.
// Strides are in bytes.
struct KernelSpec {
  Isa isa = Isa::avx512;
  int rows_hi = 0;  // rows of the taller tiles, which come first
  int rows_lo = 0;  // rows of the others
  int vecs = 0;
  int last_lanes = 0;  // lanes in use in the last vector of the panel, 1..lanes_of(isa)
  int64_t k = 0;
  int64_t p_row = 0;
  int64_t p_k = 0;
  int64_t q_k = 0;
  int64_t d_row = 0;
  int64_t p_tile = 0;   // from a tile's P to the next one's; 0 if the rows are contiguous
  bool mask_q = false;  // Q must not be read beyond last_lanes
  bool mask_d = false;  // D must not be touched beyond last_lanes
  bool add = false;     // D += instead of D =
  bool bias = false;
  bool bias_per_row = false;
  bool relu = false;
  bool squares = false;   // also store a vector of sums of squares per tile
  bool pairs = false;     // an element of P and Q is two of bf16, whose products are both added
  bool prefetch = false;  // P and D exceed the first-level cache, P is read in order
  // Prefetch of the data to be packed next: each tile prefetches prefetch_rows rows of
  // prefetch_row_bytes each, prefetch_stride apart. 0 rows: none.
  int64_t prefetch_rows = 0;
  int64_t prefetch_row_bytes = 0;
  int64_t prefetch_stride = 0;

  bool operator==(const KernelSpec&) const = default;
};

enum class Packing { none, copy, transpose };

struct Panel {
  int64_t first_lane = 0;
  int64_t lanes = 0;
  int vecs = 0;
  int rows_hi = 0;
  int rows_lo = 0;
  int64_t tiles_hi = 0;
  int64_t tiles_lo = 0;
  int64_t first_tile = 0;  // total number of tiles of the panels before it
  int kind = 0;            // panels of one kind share their generated functions
  int64_t tiles() const { return tiles_hi + tiles_lo; }
};

// Panels of one kind lie side by side.
struct PanelKind {
  Panel first;
  int64_t count = 0;
};

struct KBlock {
  int64_t first = 0;
  int64_t size = 0;
};

struct JitPlan {
  std::string refusal;  // empty if the plan is usable

  MatmulDesc desc;
  Isa isa = Isa::plain;
  bool transposed = false;
  Packing packing = Packing::none;
  int64_t rows = 0;   // rows of P and D
  int64_t lanes = 0;  // columns of Q and D
  int64_t k = 0;
  int64_t p_row = 0;  // strides of P and Q in elements
  int64_t p_k = 0;
  int64_t q_k = 0;
  int64_t q_lane = 0;
  std::vector<PanelKind> kinds;  // a few, however wide the product is
  std::vector<KBlock> k_blocks;

  int threads = 1;
  int row_splits = 1;         // parts that every panel is split into, for the threads
  size_t pack_floats = 0;     // per thread
  size_t scratch_floats = 0;  // per thread, for D when transposed
  size_t squares_floats = 0;  // a vector for each tile of all products; 0 if not requested
  double cycles_alone = 0;    // estimate on one thread, for comparing plans
  double cycles = 0;          // the same on `threads`

  int64_t n_panels() const {
    int64_t n = 0;
    for (const PanelKind& kind : kinds) n += kind.count;
    return n;
  }
  Panel panel(int64_t index) const {
    auto kind = kinds.begin();
    for (; index >= kind->count; ++kind) index -= kind->count;
    Panel panel = kind->first;
    panel.first_lane += index * panel.lanes;
    panel.first_tile += index * panel.tiles();
    return panel;
  }
  int64_t all_tiles() const {
    return kinds.back().first.first_tile + kinds.back().count * kinds.back().first.tiles();
  }
  size_t workspace_bytes() const {
    return (static_cast<size_t>(threads) * (pack_floats + scratch_floats) + squares_floats) *
           sizeof(float);
  }
};

// Why generated kernels of any kind refuse the desc; empty if they don't.
std::string jit_refusal(const MatmulDesc& desc);

// The best plan for the desc, or one with `refusal` set. `isa` must be avx2 or avx512.
// The desc must have been checked; empty products are refused.
JitPlan plan_jit(const MatmulDesc& desc, Isa isa);

// The spec of the function for one kind of panel and one block of k.
KernelSpec kernel_spec(const JitPlan& plan, const Panel& panel, size_t k_block);

}  // namespace plait::cpu
