// reduce of rows and of columns, with loads of 16 bytes where the shape allows. The order of every
// sum follows from the shape alone.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/reduce_fast_args.hpp"

namespace plait::cuda {
namespace {

constexpr int kThreads = 256;

__device__ __forceinline__ float multiply_add(float a, float b, float c) { return fmaf(a, b, c); }
__device__ __forceinline__ double multiply_add(double a, double b, double c) {
  return fma(a, b, c);
}

struct Add : Sum {
  template <class A>
  static __device__ __forceinline__ A start() {
    return 0;
  }
  template <class A>
  static __device__ __forceinline__ A add(A all, A x) {
    return all + x;
  }
};
struct AddSquare : Add {
  template <class A>
  static __device__ __forceinline__ A add(A all, A x) {
    return multiply_add(x, x, all);
  }
};
struct Greatest : Max {
  template <class A>
  static __device__ __forceinline__ A start() {
    return static_cast<A>(-kInfinity);
  }
  template <class A>
  static __device__ __forceinline__ A add(A all, A x) {
    return max_nan(all, x);
  }
};

// Adds a pack of elements to as many sums.
template <class Op, class T, int N>
__device__ __forceinline__ void add_pack(const T* from, Accumulate<T>* sums) {
  Accumulate<T> x[N];
  load_pack<T, N>(from, x);
#pragma unroll
  for (int j = 0; j < N; ++j) sums[j] = Op::add(sums[j], x[j]);
}

// Packs lane, lane + lanes, .. of n elements.
template <class Op, class T, int N>
__device__ __forceinline__ Accumulate<T> fold_lane(const T* x, int64_t n, int lane, int lanes) {
  using A = Accumulate<T>;
  A sums[N];
#pragma unroll
  for (int j = 0; j < N; ++j) sums[j] = Op::template start<A>();
#pragma unroll 4
  for (int64_t i = int64_t{lane} * N; i < n; i += int64_t{lanes} * N)
    add_pack<Op, T, N>(x + i, sums);
  A all = sums[0];
#pragma unroll
  for (int j = 1; j < N; ++j) all = Op::join(all, sums[j]);
  return all;
}

template <class Op, class T, int N>
__device__ __forceinline__ void fold_rows(const ReduceRowsArgs& a) {
  using A = Accumulate<T>;
  const int lanes = static_cast<int>(a.lanes), lane = static_cast<int>(threadIdx.x) % lanes,
            group = static_cast<int>(threadIdx.x) / lanes, groups = kThreads / lanes;
  const int64_t all_parts = a.rows * a.parts;
  for (int64_t first = int64_t{blockIdx.x} * groups; first < all_parts;
       first += int64_t{gridDim.x} * groups) {
    const int64_t at = first + group;
    A all = Op::template start<A>();
    if (at < all_parts) {
      const int64_t row = a.parts == 1 ? at : at / a.parts, from = (at - row * a.parts) * a.part;
      const T* x = static_cast<const T*>(a.x) + row * a.n + from;
      all = fold_lane<Op, T, N>(x, min(a.part, a.n - from), lane, lanes);
    }
    if (lanes == kThreads) {
      all = over_block<Op>(all, Op::template start<A>());
    } else {
      for (int step = lanes / 2; step > 0; step /= 2)
        all = Op::join(all, __shfl_xor_sync(kWholeWarp, all, step));
    }
    if (lane == 0 && at < all_parts) set(a.y, at, all);
  }
}

// A thread folds some rows of its columns; then the threads of a column are joined pair by pair.
template <class Op, class T, int N>
__device__ __forceinline__ void fold_columns(const ReduceColumnsArgs& a) {
  using A = Accumulate<T>;
  __shared__ A shared[N][kThreads];
  const int width = static_cast<int>(a.width), thread = static_cast<int>(threadIdx.x),
            rows = kThreads / width;
  const int64_t all_blocks = a.batch * a.stacks * a.tiles;
  for (int64_t block = blockIdx.x; block < all_blocks; block += gridDim.x) {
    const int64_t tile = block % a.tiles, place = block / a.tiles, stack = place % a.stacks;
    const int64_t column = (tile * width + thread % width) * N, first = stack * a.stack,
                  end = min(first + a.stack, a.rows);
    const T* x = static_cast<const T*>(a.x) + place / a.stacks * a.rows * a.cols + column;
    A sums[N];
#pragma unroll
    for (int j = 0; j < N; ++j) sums[j] = Op::template start<A>();
    if (column < a.cols) {
#pragma unroll 4
      for (int64_t r = first + thread / width; r < end; r += rows)
        add_pack<Op, T, N>(x + r * a.cols, sums);
    }
    __syncthreads();  // the block before this one may still be read
#pragma unroll
    for (int j = 0; j < N; ++j) shared[j][thread] = sums[j];
    for (int half = kThreads / 2; half >= width; half /= 2) {
      __syncthreads();
      if (thread < half) {
#pragma unroll
        for (int j = 0; j < N; ++j)
          shared[j][thread] = Op::join(shared[j][thread], shared[j][thread + half]);
      }
    }
    if (thread < width && column < a.cols) {
#pragma unroll
      for (int j = 0; j < N; ++j) set(a.y, place * a.cols + column + j, shared[j][thread]);
    }
  }
}

template <class T, int N>
__device__ __forceinline__ void rows_of_kind(const ReduceRowsArgs& a) {
  if (a.kind == kReduceSum)
    fold_rows<Add, T, N>(a);
  else if (a.kind == kReduceMax)
    fold_rows<Greatest, T, N>(a);
  else
    fold_rows<AddSquare, T, N>(a);
}
template <class T, int N>
__device__ __forceinline__ void columns_of_kind(const ReduceColumnsArgs& a) {
  if (a.kind == kReduceSum)
    fold_columns<Add, T, N>(a);
  else if (a.kind == kReduceMax)
    fold_columns<Greatest, T, N>(a);
  else
    fold_columns<AddSquare, T, N>(a);
}

}  // namespace

#define PLAIT_REDUCE(type, T)                                        \
  PLAIT_GLOBAL(reduce_rows_##type, ReduceRowsArgs, kThreads) {       \
    if (a.packed)                                                    \
      rows_of_kind<T, 16 / sizeof(T)>(a);                            \
    else                                                             \
      rows_of_kind<T, 1>(a);                                         \
  }                                                                  \
  PLAIT_GLOBAL(reduce_columns_##type, ReduceColumnsArgs, kThreads) { \
    if (a.packed)                                                    \
      columns_of_kind<T, 16 / sizeof(T)>(a);                         \
    else                                                             \
      columns_of_kind<T, 1>(a);                                      \
  }
PLAIT_REDUCE(f32, float)
PLAIT_REDUCE(f64, double)
PLAIT_REDUCE(bf16, bf16)
PLAIT_REDUCE(f16, f16)
#undef PLAIT_REDUCE

}  // namespace plait::cuda
