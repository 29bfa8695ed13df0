// transpose, slice, pad and concat: units move, of up to 16 bytes.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/layout_fast_args.hpp"

namespace plait::cuda {
namespace {

// i / by, and what is left of i. Most tensors have few enough units for division in 32 bits.
__device__ __forceinline__ int64_t divide(int64_t& i, int64_t by) {
  const int64_t whole =
      ((i | by) >> 32) == 0
          ? static_cast<int64_t>(static_cast<uint32_t>(i) / static_cast<uint32_t>(by))
          : i / by;
  i -= whole * by;
  return whole;
}

template <class U>
__device__ __forceinline__ void copy_blocks(const CopyArgs& a) {
  const CopiedBlock& c = a.copies[blockIdx.y];
  const U* x = static_cast<const U*>(c.x) + c.from;
  U* y = static_cast<U*>(a.y) + c.to;
  for (int64_t i = thread_index(), n = a.outer * c.length; i < n; i += thread_count()) {
    int64_t at = i;
    const int64_t outer = divide(at, c.length);
    y[outer * a.to_step + at] = x[outer * c.from_step + at];
  }
}

// One copy, and zeros around it.
template <class U>
__device__ __forceinline__ void copy_and_zero(const CopyArgs& a) {
  const CopiedBlock& c = a.copies[0];
  const U* x = static_cast<const U*>(c.x) + c.from;
  U* y = static_cast<U*>(a.y);
  for (int64_t i = thread_index(), n = a.outer * a.to_step; i < n; i += thread_count()) {
    int64_t at = i;
    const int64_t outer = divide(at, a.to_step);
    const bool copied = at >= c.to && at < c.to + c.length;
    y[i] = copied ? x[outer * c.from_step + at - c.to] : U{};
  }
}

template <class U>
__device__ __forceinline__ void gather_units(const GatherUnitsArgs& a) {
  const U* x = static_cast<const U*>(a.x);
  U* y = static_cast<U*>(a.y);
  for (int64_t i = thread_index(); i < a.n; i += thread_count()) {
    int64_t at = 0, rest = i;
    for (int32_t d = a.rank; d-- > 0;) {
      const int64_t next = divide(rest, a.extents[d]);
      at += rest * a.strides[d];
      rest = next;
    }
    y[i] = x[at];
  }
}

// A block moves a tile of 32 x 32 by way of shared memory, so that both sides walk along their
// rows.
template <class U>
__device__ __forceinline__ void transpose_tiles(const TilesArgs& a) {
  __shared__ U tile[32][33];  // 33: the threads of a warp meet all banks in both directions
  const int lane = static_cast<int>(threadIdx.x) % 32, line = static_cast<int>(threadIdx.x) / 32;
  for (int64_t block = blockIdx.x; block < a.blocks; block += gridDim.x) {
    int64_t place = block;
    int64_t rest = divide(place, a.row_tiles * a.col_tiles);
    const int64_t row = divide(place, a.col_tiles) * 32, col = place * 32;
    int64_t from = 0, to = 0;
    for (int32_t d = a.rank; d-- > 0;) {
      const int64_t next = divide(rest, a.extents[d]);
      from += rest * a.from[d];
      to += rest * a.to[d];
      rest = next;
    }
    const U* x = static_cast<const U*>(a.x) + from + row;
    U* y = static_cast<U*>(a.y) + to + col;
    __syncthreads();  // the tile before this one may still be read
#pragma unroll
    for (int j = line; j < 32; j += 8)
      if (row + lane < a.rows && col + j < a.cols)
        tile[j][lane] = x[(col + j) * a.from_step + lane];
    __syncthreads();
#pragma unroll
    for (int j = line; j < 32; j += 8)
      if (row + j < a.rows && col + lane < a.cols) y[(row + j) * a.to_step + lane] = tile[lane][j];
  }
}

}  // namespace

PLAIT_GLOBAL(layout_copy, CopyArgs, 256) {
  if (a.unit == 16)
    copy_blocks<uint4>(a);
  else if (a.unit == 8)
    copy_blocks<uint64_t>(a);
  else if (a.unit == 4)
    copy_blocks<uint32_t>(a);
  else if (a.unit == 2)
    copy_blocks<uint16_t>(a);
  else
    copy_blocks<uint8_t>(a);
}

PLAIT_GLOBAL(layout_copy_and_zero, CopyArgs, 256) {
  if (a.unit == 16)
    copy_and_zero<uint4>(a);
  else if (a.unit == 8)
    copy_and_zero<uint64_t>(a);
  else if (a.unit == 4)
    copy_and_zero<uint32_t>(a);
  else if (a.unit == 2)
    copy_and_zero<uint16_t>(a);
  else
    copy_and_zero<uint8_t>(a);
}

PLAIT_GLOBAL(layout_gather_units, GatherUnitsArgs, 256) {
  if (a.unit == 16)
    gather_units<uint4>(a);
  else if (a.unit == 8)
    gather_units<uint64_t>(a);
  else if (a.unit == 4)
    gather_units<uint32_t>(a);
  else if (a.unit == 2)
    gather_units<uint16_t>(a);
  else
    gather_units<uint8_t>(a);
}

PLAIT_GLOBAL(layout_tiles, TilesArgs, 256) {
  if (a.unit == 8)
    transpose_tiles<uint64_t>(a);
  else if (a.unit == 4)
    transpose_tiles<uint32_t>(a);
  else if (a.unit == 2)
    transpose_tiles<uint16_t>(a);
  else
    transpose_tiles<uint8_t>(a);
}

}  // namespace plait::cuda
