#include "plugins/devices/cuda/map/prelude.hpp"

namespace plait::cuda::map {

// Written for one compiler run of several sources, too: each is in a namespace of its own, and what
// the preprocessor knows is defined anew.
const char* const kPrelude = R"(
#undef MAP_INLINE
#undef MAP_UNROLL
#undef MAP_CALL
#ifdef PLAIT_CUDA_EMULATED
#define MAP_INLINE inline __attribute__((always_inline))
#define MAP_UNROLL
#if WIDE
#define MAP_CALL(name) __builtin_##name
#else
#define MAP_CALL(name) __builtin_##name##f
#endif
#else
#define MAP_INLINE __device__ __forceinline__
#define MAP_UNROLL _Pragma("unroll")
#undef PLAIT_GLOBAL
#define PLAIT_GLOBAL(name, Args, threads) \
  extern "C" __global__ void __launch_bounds__(threads) name(const __grid_constant__ Args a)
#if WIDE
#define MAP_CALL(name) name
#else
#define MAP_CALL(name) name##f
#endif
#endif

struct bf16 { unsigned short bits; };
struct f16 { unsigned short bits; };
struct boolean { unsigned char byte; };

// The types of 16 bits, to and from f32, to nearest even.
#ifdef PLAIT_CUDA_EMULATED
MAP_INLINE float as_float(unsigned bits) { return __builtin_bit_cast(float, bits); }
MAP_INLINE unsigned as_bits(float v) { return __builtin_bit_cast(unsigned, v); }
MAP_INLINE float widen(f16 v) { return __builtin_bit_cast(_Float16, v.bits); }
MAP_INLINE void narrow(float v, f16& to) {
  to.bits = __builtin_bit_cast(unsigned short, static_cast<_Float16>(v));
}
MAP_INLINE void narrow(float v, bf16& to) {
  const unsigned bits = as_bits(v);
  to.bits = (v != v ? bits | 0x400000u : bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
}
MAP_INLINE unsigned narrow_pair(float low, float high) {
  bf16 a, b;
  narrow(low, a), narrow(high, b);
  return a.bits | static_cast<unsigned>(b.bits) << 16;
}
MAP_INLINE real infinity() { return __builtin_inff(); }
#else
MAP_INLINE float as_float(unsigned bits) { return __uint_as_float(bits); }
MAP_INLINE float widen(f16 v) {
  float to;
  asm("cvt.f32.f16 %0, %1;" : "=f"(to) : "h"(v.bits));
  return to;
}
MAP_INLINE void narrow(float v, f16& to) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(v));
}
MAP_INLINE void narrow(float v, bf16& to) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(v));
}
MAP_INLINE unsigned narrow_pair(float low, float high) {
  unsigned to;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(to) : "f"(high), "f"(low));
  return to;
}
MAP_INLINE real infinity() { return as_float(0x7f800000u); }
#endif
MAP_INLINE float widen(bf16 v) { return as_float(static_cast<unsigned>(v.bits) << 16); }
MAP_INLINE real not_a_number() { return as_float(0x7fc00000u); }

// Loads.
MAP_INLINE real load(float v) { return v; }
MAP_INLINE real load(double v) { return static_cast<real>(v); }
MAP_INLINE real load(int v) { return static_cast<real>(v); }
MAP_INLINE real load(long long v) { return static_cast<real>(v); }
MAP_INLINE real load(unsigned char v) { return v; }
MAP_INLINE real load(boolean v) { return v.byte; }
MAP_INLINE real load(bf16 v) { return widen(v); }
MAP_INLINE real load(f16 v) { return widen(v); }

// Stores: integers toward zero, limited to [least, most], NaN as 0. `end` is most + 1, which `real`
// holds exactly.
template <class E>
MAP_INLINE E whole(real v, E least, E most, real end) {
  if (v != v) return E(0);
  return v >= end ? most : v <= static_cast<real>(least) ? least : static_cast<E>(v);
}
MAP_INLINE void store(real v, float& to) { to = static_cast<float>(v); }
MAP_INLINE void store(real v, double& to) { to = v; }
MAP_INLINE void store(real v, int& to) {
  to = whole<int>(v, -0x7fffffff - 1, 0x7fffffff, real(2147483648.0));
}
MAP_INLINE void store(real v, long long& to) {
  to = whole<long long>(v, -0x7fffffffffffffffll - 1, 0x7fffffffffffffffll,
                        real(9223372036854775808.0));
}
MAP_INLINE void store(real v, unsigned char& to) {
  to = whole<unsigned char>(v, 0, 255, real(256));
}
MAP_INLINE void store(real v, boolean& to) { to.byte = v != 0; }
MAP_INLINE void store(real v, bf16& to) { narrow(static_cast<float>(v), to); }
MAP_INLINE void store(real v, f16& to) { narrow(static_cast<float>(v), to); }

// A vector, loaded and stored 16 bytes at a time; its address is a multiple of its size, or of 16.
template <class E>
struct alignas(WIDTH * sizeof(E) < 16 ? WIDTH * sizeof(E) : 16) Vector { E at[WIDTH]; };

template <class E>
MAP_INLINE void load(const E* from, real (&to)[WIDTH]) {
  const Vector<E> v = *reinterpret_cast<const Vector<E>*>(from);
  MAP_UNROLL for (int k = 0; k < WIDTH; ++k) to[k] = load(v.at[k]);
}
template <class E>
MAP_INLINE void store(const real (&from)[WIDTH], E* to) {
  Vector<E> v;
  MAP_UNROLL for (int k = 0; k < WIDTH; ++k) store(from[k], v.at[k]);
  *reinterpret_cast<Vector<E>*>(to) = v;
}
MAP_INLINE void store(const real (&from)[WIDTH], bf16* to) {
  struct alignas(WIDTH * 2 < 16 ? WIDTH * 2 : 16) Pairs { unsigned at[WIDTH / 2]; } v;
  MAP_UNROLL for (int k = 0; k < WIDTH; k += 2)
    v.at[k / 2] = narrow_pair(static_cast<float>(from[k]), static_cast<float>(from[k + 1]));
  *reinterpret_cast<Pairs*>(to) = v;
}

// Functions of plait/map.h that are no operators.
MAP_INLINE real truth(bool b) { return b ? real(1) : real(0); }
MAP_INLINE real magnitude(real a) { return MAP_CALL(fabs)(a); }
MAP_INLINE real square_root(real a) { return MAP_CALL(sqrt)(a); }
MAP_INLINE real round_down(real a) { return MAP_CALL(floor)(a); }
MAP_INLINE real multiply_add(real a, real b, real c) { return MAP_CALL(fma)(a, b, c); }
MAP_INLINE real exponential(real a) { return MAP_CALL(exp)(a); }
MAP_INLINE real exponential_minus_1(real a) { return MAP_CALL(expm1)(a); }
MAP_INLINE real logarithm(real a) { return MAP_CALL(log)(a); }
MAP_INLINE real logarithm_plus_1(real a) { return MAP_CALL(log1p)(a); }
MAP_INLINE real power(real a, real b) { return MAP_CALL(pow)(a, b); }
MAP_INLINE real hyperbolic_tangent(real a) { return MAP_CALL(tanh)(a); }
MAP_INLINE real error_function(real a) { return MAP_CALL(erf)(a); }
MAP_INLINE real sigmoid(real a) {  // no exponential of a positive number, which could overflow
  const real e = exponential(-magnitude(a));
  return (a < 0 ? e : real(1)) / (real(1) + e);
}
)";

}  // namespace plait::cuda::map
