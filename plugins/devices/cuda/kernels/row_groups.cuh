// How the fast kernels of rows divide a row among threads: a group, one warp or one block of
// kRowBlock threads, owns a row. A short row stays in registers; of a long one each thread visits
// packs of 16 bytes.
#pragma once

#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/row_groups.hpp"

namespace plait::cuda {

// The threads that own a row: kThreads is 32 or kRowBlock.
template <int kThreads>
struct Group {
  static constexpr int kOfBlock = kRowBlock / kThreads;
  static __device__ __forceinline__ int thread() {
    return static_cast<int>(threadIdx.x) % kThreads;
  }
  // May lie behind the last row, unless the group is a block.
  static __device__ __forceinline__ int64_t row() {
    return static_cast<int64_t>(blockIdx.x) * kOfBlock + threadIdx.x / kThreads;
  }
  static __device__ __forceinline__ float sum(float v) {
    if constexpr (kThreads == 32)
      return over_warp<Sum>(v);
    else
      return over_block<Sum>(v, 0.0f);
  }
  static __device__ __forceinline__ float greatest(float v) {
    if constexpr (kThreads == 32)
      return over_warp<Greatest>(v);
    else
      return over_block<Greatest>(v, -INFINITY);
  }

 private:
  // Without NaN: rows that have one get it from their sum.
  struct Greatest {
    static __device__ __forceinline__ float join(float a, float b) { return fmaxf(a, b); }
  };
};

template <class T, int kPack>
__device__ __forceinline__ Pack<T, kPack> load_raw(const T* from) {
  return *reinterpret_cast<const Pack<T, kPack>*>(from);
}
template <class T, int kPack>
__device__ __forceinline__ void unpack(const Pack<T, kPack>& pack, float* to) {
#pragma unroll
  for (int j = 0; j < kPack; ++j) to[j] = load(&pack.v[j]);
}

// A row in the registers of its group: thread t has the elements of the packs t, t + kThreads, ...,
// kPack elements each; kPack divides the row. Pack p of a thread begins at begin() + p * kStep.
template <int kThreads, int kPack, int kEach = kRowKept>
struct Kept {
  static constexpr int kPacks = kEach / kPack, kStep = kThreads * kPack;
  static __device__ __forceinline__ int begin() { return Group<kThreads>::thread() * kPack; }
  // mine: begin() of a row. All loads are under way before the first one is waited for.
  template <class T>
  static __device__ __forceinline__ void read(const T* mine, int cols, Pack<T, kPack>* to) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p)
      if (begin() + p * kStep < cols) to[p] = load_raw<T, kPack>(mine + p * kStep);
  }
  // f(p) for each pack of the thread.
  template <class F>
  static __device__ __forceinline__ void each(int cols, const F& f) {
    const int packs = (cols + kStep - 1) / kStep;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      if (p >= packs) break;
      if (begin() + p * kStep < cols) f(p);
    }
  }
};

// Calls of_pack(i, v) with all whole packs of 16 bytes of a row, four of a thread in flight, and
// of_single(i, v) with the elements before the first and behind the last one; i is the place in the
// row, v[k] is of row x[k]. The rows are aligned as elements are, and all alike.
template <class T, int kThreads, int kRows, class OfPack, class OfSingle>
__device__ __forceinline__ void each_pack(const T* const (&x)[kRows], int cols,
                                          const OfPack& of_pack, const OfSingle& of_single) {
  constexpr int kPack = 16 / sizeof(T), kFlight = 4, kStep = kThreads * kPack;
  const int thread = Group<kThreads>::thread();
  const int beyond = static_cast<int>(reinterpret_cast<uintptr_t>(x[0]) / sizeof(T) % kPack);
  const int head = min(beyond == 0 ? 0 : kPack - beyond, cols);
  const int tail = head + (cols - head) / kPack * kPack;
  const auto single = [&](int i) {
    float v[kRows];
#pragma unroll
    for (int n = 0; n < kRows; ++n) v[n] = load(x[n] + i);
    of_single(i, v);
  };
  if (thread < head) single(thread);
  if (thread < cols - tail) single(tail + thread);
  for (int first = head + thread * kPack; first < tail; first += kFlight * kStep) {
    Pack<T, kPack> packs[kFlight][kRows];
#pragma unroll
    for (int k = 0; k < kFlight; ++k)
#pragma unroll
      for (int n = 0; n < kRows; ++n)
        if (first + k * kStep < tail) packs[k][n] = load_raw<T, kPack>(x[n] + first + k * kStep);
#pragma unroll
    for (int k = 0; k < kFlight; ++k) {
      if (first + k * kStep >= tail) break;
      float v[kRows][kPack];
#pragma unroll
      for (int n = 0; n < kRows; ++n) unpack<T, kPack>(packs[k][n], v[n]);
      of_pack(first + k * kStep, v);
    }
  }
}

}  // namespace plait::cuda
