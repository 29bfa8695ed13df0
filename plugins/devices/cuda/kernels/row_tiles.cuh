// The device side of row_tiles.hpp.
#pragma once

#include "plugins/devices/cuda/kernels/device.cuh"

namespace plait::cuda {

// Which row a thread works at, and its units: first, first + step, ...
struct RowTile {
  int64_t row, first, step;
};
__device__ __forceinline__ RowTile row_tile(int log_lanes) {
  const unsigned lanes = 1u << log_lanes, rows = blockDim.x >> log_lanes;
  return {static_cast<int64_t>(blockIdx.x) * rows + (threadIdx.x >> log_lanes),
          static_cast<int64_t>(blockIdx.y) * lanes + (threadIdx.x & (lanes - 1)),
          static_cast<int64_t>(gridDim.y) * lanes};
}

// A unit of 8 repeated bytes.
template <class U>
__device__ __forceinline__ U repeated(uint64_t bytes) {
  return static_cast<U>(bytes);
}
template <>
__device__ __forceinline__ uint4 repeated<uint4>(uint64_t bytes) {
  const auto low = static_cast<unsigned>(bytes), high = static_cast<unsigned>(bytes >> 32);
  return make_uint4(low, high, low, high);
}

}  // namespace plait::cuda
