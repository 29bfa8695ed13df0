// What the fast kernels of transpose, slice, pad and concat receive. They move units: 1, 2, 4, 8 or
// 16 bytes, as many elements as all offsets and extents allow. All numbers count units.
#pragma once

#include <cstdint>

namespace plait::cuda {

// In each of `outer` steps `length` units are copied from x to y.
struct CopiedBlock {
  const void* x;
  int64_t from, from_step, to, length;
};
// The copies of one launch; a grid has a row of blocks for each.
inline constexpr int kCopiesOfLaunch = 64;
struct CopyArgs {
  void* y;
  int64_t outer, to_step;
  uint32_t unit;  // bytes
  uint32_t reserved;
  CopiedBlock copies[kCopiesOfLaunch];
};
static_assert(sizeof(CopyArgs) <= 4096);

// y, row-major of these extents: each extent has a stride in x; the last one is 1.
struct GatherUnitsArgs {
  const void* x;
  void* y;
  int64_t n;
  int64_t extents[8], strides[8];
  int32_t rank;
  uint32_t unit;
};

// y (.., rows, .., cols) of x (.., cols, .., rows): the last axis of y walks x in strides, and the
// last one of x walks y in strides. `extents`: the axes that are neither.
struct TilesArgs {
  const void* x;
  void* y;
  int64_t rows, cols, from_step, to_step;  // from one column to the next in x; one row in y
  int64_t row_tiles, col_tiles, blocks;
  int64_t extents[8], from[8], to[8];
  int32_t rank;
  uint32_t unit;  // at most 8
};

}  // namespace plait::cuda
