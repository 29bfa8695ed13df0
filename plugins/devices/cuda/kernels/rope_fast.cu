// rope with loads of 16 bytes, in the type that sums have (f32 of 16-bit floats): a thread for each
// pack of pairs, and for each pack of channels that are in no pair. The packs of a head are
// numbered pairs first.
#include "plugins/devices/cuda/kernels/device.cuh"
#include "plugins/devices/cuda/kernels/rope_args.hpp"

namespace plait::cuda {
namespace {

// Two channels turned by an angle.
template <class A>
__device__ __forceinline__ void turn(A& x0, A& x1, float cos, float sin) {
  const A turned = x0 * static_cast<A>(cos) - x1 * static_cast<A>(sin);
  x1 = x1 * static_cast<A>(cos) + x0 * static_cast<A>(sin);
  x0 = turned;
}

// N neighbours of cos or sin; `from` is aligned to as many.
template <int N>
__device__ __forceinline__ void load_table(const float* from, float* to) {
  constexpr int kEach = N < 4 ? N : 4;
#pragma unroll
  for (int j = 0; j < N; j += kEach) load_pack<float, kEach>(from + j, to + j);
}

// Pairs j and j + pairs: N of them from two packs.
template <class T, int N>
__device__ __forceinline__ void turn_halves(const RopeArgs& a, const T* x, T* y, int64_t angle,
                                            int64_t pair) {
  Accumulate<T> x0[N], x1[N];
  float cos[N], sin[N];
  load_pack<T, N>(x + pair, x0);
  load_pack<T, N>(x + a.pairs + pair, x1);
  load_table<N>(a.cos + angle + pair, cos);
  load_table<N>(a.sin + angle + pair, sin);
#pragma unroll
  for (int j = 0; j < N; ++j) turn(x0[j], x1[j], cos[j], a.inverse ? -sin[j] : sin[j]);
  store_pack<T, N>(y + pair, x0);
  store_pack<T, N>(y + a.pairs + pair, x1);
}

// Pairs 2j and 2j + 1: N / 2 of them from one pack.
template <class T, int N>
__device__ __forceinline__ void turn_neighbours(const RopeArgs& a, const T* x, T* y, int64_t angle,
                                                int64_t channel) {
  Accumulate<T> v[N];
  float cos[N / 2], sin[N / 2];
  load_pack<T, N>(x + channel, v);
  load_table<N / 2>(a.cos + angle + channel / 2, cos);
  load_table<N / 2>(a.sin + angle + channel / 2, sin);
#pragma unroll
  for (int j = 0; j < N / 2; ++j)
    turn(v[2 * j], v[2 * j + 1], cos[j], a.inverse ? -sin[j] : sin[j]);
  store_pack<T, N>(y + channel, v);
}

template <class T>
__device__ __forceinline__ void rope(const RopeArgs& a) {
  constexpr int N = 16 / sizeof(T);
  const int64_t turned = (a.adjacent ? 2 * a.pairs : a.pairs) / N,
                packs = turned + (a.channels - 2 * a.pairs) / N,
                n = a.samples * a.tokens * a.heads * packs;
  for (int64_t i = thread_index(); i < n; i += thread_count()) {
    const int64_t head = i / packs, pack = i % packs, token = head / a.heads;
    const int64_t angle = (a.by_sample ? token : token % a.tokens) * a.pairs;
    const T* x = static_cast<const T*>(a.x.data) + head * a.channels;
    T* y = static_cast<T*>(a.y.data) + head * a.channels;
    if (pack >= turned) {
      const int64_t at = 2 * a.pairs + (pack - turned) * N;
      *reinterpret_cast<Pack<T, N>*>(y + at) = *reinterpret_cast<const Pack<T, N>*>(x + at);
    } else if (a.adjacent) {
      turn_neighbours<T, N>(a, x, y, angle, pack * N);
    } else {
      turn_halves<T, N>(a, x, y, angle, pack * N);
    }
  }
}

}  // namespace

PLAIT_GLOBAL(rope_f32, RopeArgs, 256) { rope<float>(a); }
PLAIT_GLOBAL(rope_bf16, RopeArgs, 256) { rope<bf16>(a); }
PLAIT_GLOBAL(rope_f16, RopeArgs, 256) { rope<f16>(a); }

}  // namespace plait::cuda
