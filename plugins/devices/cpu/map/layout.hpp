// Maps the operands of a map onto the elements of the outputs, with as few loops as possible, and
// splits the elements between threads.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "plugins/devices/cpu/map/map.hpp"

namespace plait::cpu {

// dims[0..ndim) from the outermost loop to the row; ndim >= 1. strides[o][d] in elements, for
// inputs then outputs; in the row every stride is 1 (dense) or 0 (one element for the whole row).
// Outputs are always dense.
struct Layout {
  using Strides = std::array<int64_t, PLAIT_MAX_NDIM>;

  int ndim = 1;
  std::array<int64_t, PLAIT_MAX_NDIM> dims{};
  std::vector<Strides> strides;
  int64_t total = 0;

  int64_t row() const { return dims[ndim - 1]; }
  int64_t rows() const { return row() ? total / row() : 0; }
  // Element offset of operand `o` at the start of row `r` (0 <= r < rows()).
  int64_t row_offset(size_t o, int64_t r) const;
};

// Drops extents of 1 and merges adjacent dims over which every operand is dense, or every stride is
// 0. Throws plait::Error (PLAIT_ERR_INVALID) if outputs differ in dims, an input does not
// broadcast, or a size overflows.
Layout make_layout(const MapDesc& desc);

// Number of threads that pays for `layout`: 1 below about 16 thousand elements.
int useful_threads(const Layout& layout, int threads);

struct WorkRange {
  int64_t begin, end;
};
// Part `i` of `n` of [0, total), split at multiples of `grain`; parts differ by at most one grain.
WorkRange split(int64_t total, int64_t grain, int i, int n);

}  // namespace plait::cpu
