// How blocks and threads of the products of groups find the group of a row, or of a tile of rows.
#pragma once

#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/grouped_matmul_args.hpp"

namespace plait::cuda {

// The segment of an item: of items of which begins[s] lie in the segments before s, in all G + 2.
__device__ __forceinline__ int32_t segment_of(const int32_t* begins, int32_t groups, int64_t item) {
  int32_t low = 0, high = groups + 1;
  while (low < high) {
    const int32_t middle = (low + high) / 2;
    if (begins[middle + 1] > item)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
// Of a segment less 1.
__device__ __forceinline__ bool has_matrix(const GroupedMatmulArgs& a, int32_t group) {
  return group >= 0 && group < a.groups;
}

// What a block of threads computes: rows [row, row + rows) and columns [column, column + columns)
// of y, or of the matrix `group` of y; up to kTile of each. rows 0: nothing.
struct GroupedTile {
  int32_t group;
  int64_t row, column;
  int rows, columns;
};
__device__ __forceinline__ int at_most(int64_t n, int most) {
  return n < most ? static_cast<int>(n) : most;
}
// Of grouped_matmul: blocks along x have tiles of rows, along y of columns.
template <int kTile>
__device__ __forceinline__ GroupedTile tile_of_product(const GroupedMatmulArgs& a) {
  const auto tile = static_cast<int32_t>(blockIdx.x);
  if (tile >= a.tiles[a.groups + 2]) return {};
  const int32_t segment = segment_of(a.tiles, a.groups, tile);
  const int64_t row = a.bounds[segment] + static_cast<int64_t>(tile - a.tiles[segment]) * kTile,
                column = static_cast<int64_t>(blockIdx.y) * kTile;
  return {segment - 1, row, column, at_most(a.bounds[segment + 1] - row, kTile),
          at_most(a.outputs - column, kTile)};
}
// Of grouped_matmul_grad: blocks have the tiles of one matrix after the other.
template <int kTile>
__device__ __forceinline__ GroupedTile tile_of_grad(const GroupedMatmulArgs& a) {
  const int64_t across = (a.outputs + kTile - 1) / kTile, down = (a.inputs + kTile - 1) / kTile,
                group = blockIdx.x / (across * down), tile = blockIdx.x - group * across * down,
                row = tile / across * kTile, column = tile % across * kTile;
  return {static_cast<int32_t>(group), row, column, at_most(a.inputs - row, kTile),
          at_most(a.outputs - column, kTile)};
}

}  // namespace plait::cuda
