// What the fast kernels of reduce receive.
#pragma once

#include "plugins/devices/cuda/kernels/reduce_args.hpp"

namespace plait::cuda {

// Sums of f64 are f64; sums of f32 and of 16-bit floats are f32.

// x (rows, n) -> y (rows, parts): each row is cut into parts of `part` elements, the last one
// shorter. `lanes` neighbouring threads fold a part: a power of two up to 32, or 256.
struct ReduceRowsArgs {
  const void* x;
  AnyPointer y;
  int64_t rows, n, parts, part;
  uint32_t kind, lanes;
  uint32_t packed;  // 1: n and part are multiples of 16 bytes
};

// x (batch, rows, cols) -> y (batch, stacks, cols): the rows of a batch are cut into stacks of
// `stack` rows. A block folds one stack of width columns, or width packs of columns.
struct ReduceColumnsArgs {
  const void* x;
  AnyPointer y;
  int64_t batch, rows, cols, stacks, stack, tiles;  // tiles: blocks side by side
  uint32_t kind, width;                             // a power of two up to 32
  uint32_t packed;                                  // 1: cols is a multiple of 16 bytes
};

}  // namespace plait::cuda
