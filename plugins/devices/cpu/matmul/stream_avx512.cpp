#include <immintrin.h>

// gcc 12 warns about the deliberately undefined operands inside its own intrinsics.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define PLAIT_TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#include "plugins/devices/cpu/matmul/stream_loops.hpp"

namespace plait::cpu {
namespace {

struct Avx512 {
  using F = __m512;
  using T = float;
  static constexpr int64_t kLanes = 16;
  static constexpr int kSums = 24;
  PLAIT_INLINE static F load(const float* p) { return _mm512_loadu_ps(p); }
  PLAIT_INLINE static F load_part(const float* p, int64_t n) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p);
  }
  PLAIT_INLINE static F zero() { return _mm512_setzero_ps(); }
  PLAIT_INLINE static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  PLAIT_INLINE static F add(F a, F b) { return _mm512_add_ps(a, b); }
  PLAIT_INLINE static float sum(F a) { return _mm512_reduce_add_ps(a); }
};

PLAIT_INLINE __m256i load_16(const uint16_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
PLAIT_INLINE __m256i load_16(const uint16_t* p, int64_t n) {
  return _mm256_maskz_loadu_epi16(static_cast<__mmask16>((1u << n) - 1), p);
}

struct Bf16 {
  using T = uint16_t;
  PLAIT_INLINE static __m512 widen(__m256i v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(v), 16));
  }
  PLAIT_INLINE static __m512 load(const T* p) { return widen(load_16(p)); }
  PLAIT_INLINE static __m512 load_part(const T* p, int64_t n) { return widen(load_16(p, n)); }
};

struct F16 {
  using T = uint16_t;
  PLAIT_INLINE static __m512 load(const T* p) { return _mm512_cvtph_ps(load_16(p)); }
  PLAIT_INLINE static __m512 load_part(const T* p, int64_t n) {
    return _mm512_cvtph_ps(load_16(p, n));
  }
};

}  // namespace

DotFunction dots_avx512(int64_t rows, Half weights) {
  return dots_of<Avx512, Bf16, F16>(rows, weights);
}

}  // namespace plait::cpu
