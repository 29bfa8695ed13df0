// Indices of rows sorted by the row, stably: a radix sort of (row, place), whose sums are integers.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/row_sort_args.hpp"

namespace plait::cuda {
namespace {

__device__ uint32_t key_of(const RowSortArgs& a, int64_t i) {
  if (a.keys) return a.keys[i];
  const int64_t id = get_index(a.index, i);
  const bool here = id >= a.first && id - a.first < a.rows;
  return static_cast<uint32_t>(here ? id - a.first : a.rows);
}
__device__ int digit_of(const RowSortArgs& a, uint32_t key) {
  return static_cast<int>(key >> a.shift) & (kSortDigits - 1);
}

// The lanes of this warp with the same digit, among those that have an element.
__device__ unsigned lanes_alike(int digit, bool has_element) {
  unsigned alike = __ballot_sync(kWholeWarp, has_element);
  for (int bit = 0; bit < kSortBits; ++bit) {
    const bool one = (digit >> bit & 1) != 0;
    const unsigned ones = __ballot_sync(kWholeWarp, one);
    alike &= one ? ones : ~ones;
  }
  return alike;
}

}  // namespace

// How many elements of each tile have each digit.
PLAIT_GLOBAL(row_sort_count, RowSortArgs, kSortBlock) {
  __shared__ uint32_t counts[kSortDigits];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kSortTile;
  for (int64_t i = begin + threadIdx.x; i < begin + kSortTile && i < a.count; i += kSortBlock)
    atomicAdd(&counts[digit_of(a, key_of(a, i))], 1u);
  __syncthreads();
  a.counts[threadIdx.x * a.blocks + blockIdx.x] = counts[threadIdx.x];
}

// Where the elements of each digit and tile begin: one block sums all counts before each.
PLAIT_GLOBAL(row_sort_offsets, RowSortArgs, kOffsetsBlock) {
  __shared__ uint32_t of_warp[kOffsetsBlock / 32];
  const int64_t all = static_cast<int64_t>(kSortDigits) * a.blocks,
                each = (all + kOffsetsBlock - 1) / kOffsetsBlock, begin = threadIdx.x * each,
                end = begin + each < all ? begin + each : all;
  uint32_t own = 0;
  for (int64_t i = begin; i < end; ++i) own += a.counts[i];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t before = own;  // of this thread and the lanes before it
  for (unsigned step = 1; step < 32; step *= 2) {
    const uint32_t other = __shfl_up_sync(kWholeWarp, before, step);
    if (lane >= step) before += other;
  }
  if (lane == 31) of_warp[warp] = before;
  __syncthreads();
  before -= own;
  for (unsigned w = 0; w < warp; ++w) before += of_warp[w];
  for (int64_t i = begin; i < end; ++i) {
    const uint32_t n = a.counts[i];
    a.counts[i] = before;
    before += n;
  }
}

PLAIT_GLOBAL(row_sort_place, RowSortArgs, kSortBlock) {
  constexpr unsigned kWarps = kSortBlock / 32;
  __shared__ uint32_t next[kSortDigits];  // where the next element of a digit goes
  __shared__ uint32_t of_warp[kWarps][kSortDigits];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  next[threadIdx.x] = a.counts[threadIdx.x * a.blocks + blockIdx.x];
  for (unsigned w = 0; w < kWarps; ++w) of_warp[w][threadIdx.x] = 0;
  __syncthreads();
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kSortTile;
  for (int64_t i = begin + threadIdx.x; i < begin + kSortTile + threadIdx.x; i += kSortBlock) {
    const bool valid = i < a.count;
    const uint32_t key = valid ? key_of(a, i) : 0;
    const int digit = digit_of(a, key);
    const unsigned alike = lanes_alike(digit, valid);
    const auto rank = static_cast<uint32_t>(__popc(alike & ((1u << lane) - 1)));
    if (valid && rank == 0) of_warp[warp][digit] = static_cast<uint32_t>(__popc(alike));
    __syncthreads();
    if (valid) {
      uint32_t to = next[digit] + rank;
      for (unsigned w = 0; w < warp; ++w) to += of_warp[w][digit];
      a.keys_out[to] = key;
      a.places_out[to] = a.keys ? a.places[i] : static_cast<uint32_t>(i);
    }
    __syncthreads();
    for (unsigned w = 0; w < kWarps; ++w) {
      next[threadIdx.x] += of_warp[w][threadIdx.x];
      of_warp[w][threadIdx.x] = 0;
    }
    __syncthreads();
  }
}

}  // namespace plait::cuda
