// What NCCL cannot do as comm.h wants it: sums of 16-bit floats in f32, and a maximum or minimum in
// which NaN stays. Floats become integers of the same order (keys), with NaN at the end that wins.
#include "plugins/support/cuda/global.cuh"

#include <cstdint>

#include "kit/half.hpp"
#include "plugins/comm/nccl/conversions_args.hpp"

namespace plait::comm_nccl {

constexpr int kThreads = 256;

struct Bf16 {
  using Element = uint16_t;
  static __device__ float load(uint16_t v) { return kit::from_bf16(v); }
  static __device__ uint16_t store(float v) { return kit::to_bf16(v); }
};
struct F16 {
  using Element = uint16_t;
  static __device__ float load(uint16_t v) { return kit::from_f16(v); }
  static __device__ uint16_t store(float v) { return kit::to_f16(v); }
};
template <class T>
struct Plain {
  using Element = T;
  static __device__ T load(T v) { return v; }
  static __device__ T store(T v) { return v; }
};

template <class F>
__device__ void for_each(int64_t n, F f) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    f(i);
}

template <class Type>
__device__ void widen(const ConversionArgs& a) {
  const auto* from = static_cast<const typename Type::Element*>(a.from);
  auto* to = static_cast<float*>(a.to);
  for_each(a.n, [=](int64_t i) { to[i] = Type::load(from[i]); });
}
template <class Type>
__device__ void narrow(const ConversionArgs& a) {
  const auto* from = static_cast<const float*>(a.from);
  auto* to = static_cast<typename Type::Element*>(a.to);
  for_each(a.n, [=](int64_t i) { to[i] = Type::store(from[i]); });
}

__device__ int32_t bits_of(float v) { return std::bit_cast<int32_t>(v); }
__device__ int64_t bits_of(double v) { return std::bit_cast<int64_t>(v); }
__device__ float from_bits(int32_t v) { return std::bit_cast<float>(v); }
__device__ double from_bits(int64_t v) { return std::bit_cast<double>(v); }
// Negative floats have their bits in descending order. Its own inverse.
__device__ int32_t ordered(int32_t bits) { return bits ^ ((bits >> 31) & 0x7fffffff); }
__device__ int64_t ordered(int64_t bits) { return bits ^ ((bits >> 63) & 0x7fffffffffffffff); }

template <class Type, class Key, bool top>
__device__ void keys(const ConversionArgs& a) {
  constexpr Key kMost = sizeof(Key) == 4 ? Key{0x7fffffff} : static_cast<Key>(0x7fffffffffffffff);
  const auto* from = static_cast<const typename Type::Element*>(a.from);
  auto* to = static_cast<Key*>(a.to);
  for_each(a.n, [=](int64_t i) {
    const auto v = Type::load(from[i]);
    to[i] = v != v ? (top ? kMost : -kMost - 1) : ordered(bits_of(v));
  });
}
template <class Type, class Key>
__device__ void values(const ConversionArgs& a) {
  const auto* from = static_cast<const Key*>(a.from);
  auto* to = static_cast<typename Type::Element*>(a.to);
  for_each(a.n, [=](int64_t i) { to[i] = Type::store(from_bits(ordered(from[i]))); });
}

PLAIT_GLOBAL(nccl_widen_bf16, ConversionArgs, kThreads) { widen<Bf16>(a); }
PLAIT_GLOBAL(nccl_widen_f16, ConversionArgs, kThreads) { widen<F16>(a); }
PLAIT_GLOBAL(nccl_narrow_bf16, ConversionArgs, kThreads) { narrow<Bf16>(a); }
PLAIT_GLOBAL(nccl_narrow_f16, ConversionArgs, kThreads) { narrow<F16>(a); }

#define PLAIT_NCCL_KEYS(name, Type, Key)                                                      \
  PLAIT_GLOBAL(nccl_max_keys_##name, ConversionArgs, kThreads) { keys<Type, Key, true>(a); }  \
  PLAIT_GLOBAL(nccl_min_keys_##name, ConversionArgs, kThreads) { keys<Type, Key, false>(a); } \
  PLAIT_GLOBAL(nccl_values_##name, ConversionArgs, kThreads) { values<Type, Key>(a); }
PLAIT_NCCL_KEYS(f32, Plain<float>, int32_t)
PLAIT_NCCL_KEYS(f64, Plain<double>, int64_t)
PLAIT_NCCL_KEYS(bf16, Bf16, int32_t)
PLAIT_NCCL_KEYS(f16, F16, int32_t)

// One thread: counts in memory of the host, which reads it meanwhile.
PLAIT_GLOBAL(nccl_count, CountArgs, 32) {
  volatile uint32_t* count = a.count;
  *count = *count + 1;
  __threadfence_system();
}

}  // namespace plait::comm_nccl
