// What the kernels of slice, pad, concat and transpose take; all distances in units.
#pragma once

#include <cstdint>

namespace plait::cuda {

struct LayoutCopyArgs {
  const void* from;  // null: zeros
  void* to;
  int64_t rows, units;         // units of a row
  int64_t from_step, to_step;  // from row to row
  int32_t log_lanes;           // of row_tiles()
  int32_t reserved;
};

constexpr int kTransposeDims = 8, kTransposeTile = 32;

struct TransposeArgs {
  const void* x;
  void* y;
  int64_t count;  // elements
  // Of y, the last dim first; without `rows` where the kernel works in tiles.
  int64_t extents[kTransposeDims];
  int64_t x_strides[kTransposeDims], y_strides[kTransposeDims];
  int32_t n_dims;
  int32_t reserved;
  // Tiles: the dim of y along which x is contiguous.
  int64_t rows, rows_y_stride;
};

}  // namespace plait::cuda
