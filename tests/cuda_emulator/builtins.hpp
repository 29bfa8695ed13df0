// What a kernel's source needs of CUDA when a host compiler reads it: included before it by
// -include. Threads of a block are fibers on one thread of the system (block.hpp), so an atomic
// operation is a plain one and shared memory is a static variable.
#pragma once

#define PLAIT_CUDA_EMULATED 1

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tests/cuda_emulator/interface.hpp"

#define __device__
#define __host__
#define __constant__ static
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __restrict__ __restrict
#define __align__(n) alignas(n)
#define __launch_bounds__(...)
#define __grid_constant__

#define PLAIT_GLOBAL(name, Args, threads)                                                       \
  static void name(const Args& a);                                                              \
  [[maybe_unused]] static const bool name##_added = emulator_add_kernel(                        \
      #name, sizeof(Args), threads, [](const void* a) { name(*static_cast<const Args*>(a)); }); \
  static void name(const Args& a)
#define PLAIT_DYNAMIC_SHARED(T, name) T* const name = static_cast<T*>(emulator_state.dynamic_shared)

#define threadIdx (emulator_state.thread)
#define blockIdx (emulator_state.block)
#define blockDim (emulator_state.threads)
#define gridDim (emulator_state.blocks)
constexpr int warpSize = 32;

// Vectors: as aligned as on the GPU, so that a check of alignment finds the same faults.
#define EMULATOR_VECTORS(T, name)                                   \
  struct alignas(2 * sizeof(T)) name##2 {                           \
    T x, y;                                                         \
  };                                                                \
  struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { \
    T x, y, z, w;                                                   \
  };                                                                \
  inline name##2 make_##name##2(T x, T y) { return {x, y}; }        \
  inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATOR_VECTORS(float, float)
EMULATOR_VECTORS(double, double)
EMULATOR_VECTORS(int, int)
EMULATOR_VECTORS(unsigned, uint)
EMULATOR_VECTORS(short, short)
EMULATOR_VECTORS(unsigned short, ushort)
EMULATOR_VECTORS(signed char, char)
EMULATOR_VECTORS(unsigned char, uchar)
EMULATOR_VECTORS(long long, longlong)
EMULATOR_VECTORS(unsigned long long, ulonglong)
#undef EMULATOR_VECTORS
struct float3 {
  float x, y, z;
};
inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
inline uint3 make_uint3(unsigned x, unsigned y, unsigned z) { return {x, y, z}; }

// Barriers.
inline void __syncthreads() { emulator_barrier(0, 0, 1); }
inline int __syncthreads_count(int p) { return static_cast<int>(emulator_barrier(0, 0, p)); }
inline int __syncthreads_or(int p) { return emulator_barrier(0, 0, p) != 0; }
inline int __syncthreads_and(int p) { return emulator_barrier(0, 0, !p) == 0; }
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  emulator_collective(EMULATOR_SYNC, mask, 0, 0, 32);
}
inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}
[[noreturn]] inline void __trap() { emulator_trap("__trap()"); }

// Collectives of a warp.
namespace emulator {
template <class T>
T shuffle(EmulatorCollective what, unsigned mask, T v, unsigned argument, int width) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof(T));
  bits = emulator_collective(what, mask, bits, argument, static_cast<unsigned>(width));
  std::memcpy(&v, &bits, sizeof(T));
  return v;
}
}  // namespace emulator
template <class T>
T __shfl_sync(unsigned mask, T v, int lane, int width = 32) {
  return emulator::shuffle(EMULATOR_SHUFFLE, mask, v, static_cast<unsigned>(lane), width);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned lower, int width = 32) {
  return emulator::shuffle(EMULATOR_SHUFFLE_UP, mask, v, lower, width);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned higher, int width = 32) {
  return emulator::shuffle(EMULATOR_SHUFFLE_DOWN, mask, v, higher, width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int lanes, int width = 32) {
  return emulator::shuffle(EMULATOR_SHUFFLE_XOR, mask, v, static_cast<unsigned>(lanes), width);
}
inline unsigned __ballot_sync(unsigned mask, int p) {
  return static_cast<unsigned>(emulator_collective(EMULATOR_BALLOT, mask, p != 0, 0, 32));
}
inline int __any_sync(unsigned mask, int p) { return __ballot_sync(mask, p) != 0; }
inline int __all_sync(unsigned mask, int p) { return __ballot_sync(mask, !p) == 0; }

// Atomic operations on integers; on floats they would make sums depend on the order of threads.
namespace emulator {
template <class T, class F>
T exchange(T* at, F f) {
  static_assert(std::is_integral_v<T>, "no atomic operations on floats");
  const T old = *at;
  *at = f(old);
  return old;
}
}  // namespace emulator
template <class T>
T atomicAdd(T* at, std::type_identity_t<T> v) {
  return emulator::exchange(at, [&](T old) { return static_cast<T>(old + v); });
}
template <class T>
T atomicSub(T* at, std::type_identity_t<T> v) {
  return emulator::exchange(at, [&](T old) { return static_cast<T>(old - v); });
}
template <class T>
T atomicMin(T* at, std::type_identity_t<T> v) {
  return emulator::exchange(at, [&](T old) { return old < v ? old : v; });
}
template <class T>
T atomicMax(T* at, std::type_identity_t<T> v) {
  return emulator::exchange(at, [&](T old) { return old > v ? old : v; });
}
template <class T>
T atomicAnd(T* at, std::type_identity_t<T> v) {
  return emulator::exchange(at, [&](T old) { return static_cast<T>(old & v); });
}
template <class T>
T atomicOr(T* at, std::type_identity_t<T> v) {
  return emulator::exchange(at, [&](T old) { return static_cast<T>(old | v); });
}
template <class T>
T atomicXor(T* at, std::type_identity_t<T> v) {
  return emulator::exchange(at, [&](T old) { return static_cast<T>(old ^ v); });
}
template <class T>
T atomicExch(T* at, std::type_identity_t<T> v) {
  return emulator::exchange(at, [&](T) { return v; });
}
template <class T>
T atomicCAS(T* at, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  return emulator::exchange(at, [&](T old) { return old == expected ? v : old; });
}

// Memory.
template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
void __stcs(T* p, std::type_identity_t<T> v) {
  *p = v;
}
template <class T>
void __stcg(T* p, std::type_identity_t<T> v) {
  *p = v;
}
inline uint64_t __cvta_generic_to_shared(const void* p) { return reinterpret_cast<uint64_t>(p); }

// Integers and bits.
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<uint64_t>(a) * b >> 32);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return static_cast<unsigned long long>(static_cast<unsigned __int128>(a) * b >> 64);
}
inline int __mulhi(int a, int b) { return static_cast<int>(static_cast<int64_t>(a) * b >> 32); }
inline int __popc(unsigned v) { return std::popcount(v); }
inline int __popcll(unsigned long long v) { return std::popcount(v); }
inline int __clz(int v) { return std::countl_zero(static_cast<unsigned>(v)); }
inline int __clzll(long long v) { return std::countl_zero(static_cast<unsigned long long>(v)); }
inline int __ffs(int v) { return v ? std::countr_zero(static_cast<unsigned>(v)) + 1 : 0; }
inline int __ffsll(long long v) {
  return v ? std::countr_zero(static_cast<unsigned long long>(v)) + 1 : 0;
}
inline unsigned __brev(unsigned v) {
  unsigned r = 0;
  for (int i = 0; i < 32; ++i) r |= (v >> i & 1) << (31 - i);
  return r;
}
inline unsigned __funnelshift_l(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>(((static_cast<uint64_t>(high) << 32 | low) << (shift & 31)) >> 32);
}
inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  return static_cast<unsigned>((static_cast<uint64_t>(high) << 32 | low) >> (shift & 31));
}
inline unsigned __float_as_uint(float v) { return std::bit_cast<unsigned>(v); }
inline float __uint_as_float(unsigned v) { return std::bit_cast<float>(v); }
inline int __float_as_int(float v) { return std::bit_cast<int>(v); }
inline float __int_as_float(int v) { return std::bit_cast<float>(v); }
inline long long __double_as_longlong(double v) { return std::bit_cast<long long>(v); }
inline double __longlong_as_double(long long v) { return std::bit_cast<double>(v); }

// Arithmetic. A function that is exact to the last bit on the GPU is so here; the others differ by
// what their documentation allows.
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return std::fmin(static_cast<T>(a), static_cast<T>(b));
  return static_cast<T>(a) < static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  using T = std::common_type_t<A, B>;
  if constexpr (std::is_floating_point_v<T>) return std::fmax(static_cast<T>(a), static_cast<T>(b));
  return static_cast<T>(a) > static_cast<T>(b) ? static_cast<T>(a) : static_cast<T>(b);
}
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __frcp_rn(float a) { return 1 / a; }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline float __double2float_rn(double v) { return static_cast<float>(v); }
inline float __int2float_rn(int v) { return static_cast<float>(v); }
inline float __uint2float_rn(unsigned v) { return static_cast<float>(v); }
inline float __ll2float_rn(long long v) { return static_cast<float>(v); }
inline double __ll2double_rn(long long v) { return static_cast<double>(v); }
inline double __hiloint2double(int high, int low) {
  return std::bit_cast<double>(static_cast<uint64_t>(static_cast<uint32_t>(high)) << 32 |
                               static_cast<uint32_t>(low));
}
inline float __fdividef(float a, float b) { return a / b; }
inline float __expf(float v) { return std::exp(v); }
inline float __exp2f(float v) { return std::exp2(v); }
inline float __logf(float v) { return std::log(v); }
inline float __log2f(float v) { return std::log2(v); }
inline float __saturatef(float v) { return v > 0 ? v < 1 ? v : 1 : 0; }
// By macros, since newer C libraries have functions of these names.
namespace emulator {
inline float rsqrtf_(float v) { return static_cast<float>(1 / std::sqrt(static_cast<double>(v))); }
inline double rsqrt_(double v) { return 1 / std::sqrt(v); }
}  // namespace emulator
#define rsqrtf emulator::rsqrtf_
#define __frsqrt_rn emulator::rsqrtf_
#define rsqrt emulator::rsqrt_
using std::isfinite;
using std::isinf;
using std::isnan;
