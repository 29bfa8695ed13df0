// scatter_add without atomic sums: (row, place) is sorted by the row, stably, so that the rows of
// dy that belong to one row of y lie side by side in the order of their places. Blocks add up
// chunks of that order; a row that lies in several chunks is joined from their partial sums. So the
// same indices give the same bits, but how the summands of a row are grouped depends on where they
// lie in the chunks, that is, on the indices of the other rows, too.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/scatter_add_args.hpp"

namespace plait::cuda {
namespace {

// Writes the sums of N neighbouring columns of a row of y.
template <class A, int N>
__device__ void put_row(const ScatterSumArgs& a, uint32_t row, int64_t col, A (&sum)[N]) {
  A* to = static_cast<A*>(a.y) + row * a.width + col;
  if (a.accumulate) {
    A before[N];
    load_pack<A, N>(to, before);
    for (int j = 0; j < N; ++j) sum[j] += before[j];
  }
  store_pack<A, N>(to, sum);
}

// The column of a thread's first N columns, and the distance to its next ones.
template <int N>
__device__ int64_t first_column() {
  return (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * N;
}
template <int N>
__device__ int64_t column_step() {
  return static_cast<int64_t>(gridDim.y) * blockDim.x * N;
}

// Adds up N columns of a chunk of the sorted elements, whose keys and places these are.
template <class T, int N>
__device__ void sum_columns(const ScatterSumArgs& a, const uint32_t* key, const uint32_t* places,
                            int64_t col) {
  using A = Accumulate<T>;
  constexpr int kAtOnce = 8;
  const auto none = static_cast<uint32_t>(a.rows);
  A sum[N] = {};
  int first = 0;  // of the elements of this row
  for (int i = 0; i < kScatterChunk && key[i] != none; i += kAtOnce) {
    A x[kAtOnce][N];
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r)
      if (key[i + r] != none)
        load_pack<T, N>(static_cast<const T*>(a.dy) + places[i + r] * a.width + col, x[r]);
#pragma unroll
    for (int r = 0; r < kAtOnce; ++r) {
      const int at = i + r;
      if (key[at] == none) break;
      for (int j = 0; j < N; ++j) sum[j] += x[r][j];
      const bool last = at + 1 == kScatterChunk;
      if (!last && key[at + 1] == key[at]) continue;
      const bool begins = first > 0 || key[-1] != key[at], ends = key[at + 1] != key[at];
      if (begins && ends)
        put_row<A, N>(a, key[at], col, sum);
      else
        store_pack<A, N>(static_cast<A*>(a.partial) +
                             (static_cast<int64_t>(blockIdx.x) * 2 + begins) * a.width + col,
                         sum);
      for (int j = 0; j < N; ++j) sum[j] = 0;
      first = at + 1;
    }
  }
}

// Adds up a chunk of the sorted elements: N columns for each thread at a time.
template <class T, int N>
__device__ void sum_chunk(const ScatterSumArgs& a) {
  __shared__ uint32_t keys[kScatterChunk + 2];  // with the keys before and behind the chunk
  __shared__ uint32_t places[kScatterChunk];
  const int64_t begin = static_cast<int64_t>(blockIdx.x) * kScatterChunk;
  const auto none = static_cast<uint32_t>(a.rows);
  for (int i = static_cast<int>(threadIdx.x); i < kScatterChunk + 2; i += blockDim.x) {
    const int64_t at = begin + i - 1;
    keys[i] = at >= 0 && at < a.count ? a.keys[at] : none;
    if (i < kScatterChunk) places[i] = begin + i < a.count ? a.places[begin + i] : 0;
  }
  __syncthreads();
  for (int64_t col = first_column<N>(); col < a.width; col += column_step<N>())
    sum_columns<T, N>(a, keys + 1, places, col);
}

// The first sorted element behind all elements of `key`.
__device__ int64_t end_of(const ScatterSumArgs& a, uint32_t key, int64_t low) {
  int64_t high = a.count;
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    if (a.keys[middle] > key)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

// Joins the row that begins in a chunk and does not end there.
template <class T, int N>
__device__ void join_chunks(const ScatterSumArgs& a) {
  using A = Accumulate<T>;
  const int64_t chunk = blockIdx.x, behind = (chunk + 1) * kScatterChunk;
  if (behind >= a.count) return;
  const int64_t begin = chunk * kScatterChunk;
  const uint32_t key = a.keys[behind];
  if (key == a.rows || a.keys[behind - 1] != key) return;
  if (a.keys[begin] == key && begin > 0 && a.keys[begin - 1] == key) return;
  const int64_t chunks = (end_of(a, key, behind) + kScatterChunk - 1) / kScatterChunk;
  for (int64_t col = first_column<N>(); col < a.width; col += column_step<N>()) {
    const A* partial = static_cast<const A*>(a.partial) + col;
    A sum[N], more[N];
    load_pack<A, N>(partial + (chunk * 2 + 1) * a.width, sum);
#pragma unroll 4
    for (int64_t c = chunk + 1; c < chunks; ++c) {
      load_pack<A, N>(partial + c * 2 * a.width, more);
      for (int j = 0; j < N; ++j) sum[j] += more[j];
    }
    put_row<A, N>(a, key, col, sum);
  }
}

}  // namespace

#define SCATTER_ADD_KERNELS(T, name, N)                                              \
  PLAIT_GLOBAL(scatter_sum_##name, ScatterSumArgs, 256) { sum_chunk<T, 1>(a); }      \
  PLAIT_GLOBAL(scatter_sum_wide_##name, ScatterSumArgs, 256) { sum_chunk<T, N>(a); } \
  PLAIT_GLOBAL(scatter_join_##name, ScatterSumArgs, 256) { join_chunks<T, 1>(a); }   \
  PLAIT_GLOBAL(scatter_join_wide_##name, ScatterSumArgs, 256) { join_chunks<T, N>(a); }

SCATTER_ADD_KERNELS(float, f32, 4)
SCATTER_ADD_KERNELS(double, f64, 2)
SCATTER_ADD_KERNELS(bf16, bf16, 4)
SCATTER_ADD_KERNELS(f16, f16, 4)

}  // namespace plait::cuda
