#include <immintrin.h>

#include <bit>

// gcc 12 warns about the deliberately undefined operands inside its own intrinsics.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define PLAIT_TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#include "plugins/devices/cpu/matmul/quantized_loops.hpp"

namespace plait::cpu {
namespace {

struct Avx512 {
  using F = __m512;
  static constexpr int64_t kLanes = 16;
  static constexpr int kSums = 24;
  PLAIT_INLINE static __mmask16 lanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
  PLAIT_INLINE static F load(const float* p) { return _mm512_loadu_ps(p); }
  PLAIT_INLINE static F load_part(const float* p, int64_t n) {
    return _mm512_maskz_loadu_ps(lanes(n), p);
  }
  PLAIT_INLINE static void store(float* p, F v) { _mm512_storeu_ps(p, v); }
  PLAIT_INLINE static F zero() { return _mm512_setzero_ps(); }
  PLAIT_INLINE static F broadcast(float v) { return _mm512_set1_ps(v); }
  PLAIT_INLINE static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  PLAIT_INLINE static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  PLAIT_INLINE static float sum(F a) { return _mm512_reduce_add_ps(a); }

  PLAIT_INLINE static F widen(const uint8_t* p) {
    const __m128i v = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(v));
  }
  PLAIT_INLINE static F widen_part(const uint8_t* p, int64_t n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes(n), p)));
  }

  // The tables take the low half of an index.
  PLAIT_INLINE static F levels(const uint8_t* p) {
    const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    const __m128i q = _mm_unpacklo_epi8(v, _mm_srli_epi16(v, 4));
    return _mm512_permutexvar_ps(_mm512_cvtepu8_epi32(q), _mm512_loadu_ps(kit::kNf4));
  }

  using Words = __m512i;
  PLAIT_INLINE static Words numbers(const uint8_t* p) {
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  PLAIT_INLINE static Words numbers_part(const uint8_t* p, int64_t n) {
    return _mm512_cvtepu8_epi16(
        _mm256_maskz_loadu_epi8(static_cast<__mmask32>((uint64_t{1} << n) - 1), p));
  }
  PLAIT_INLINE static F products(Words w, const int16_t* x) {
    return _mm512_cvtepi32_ps(_mm512_madd_epi16(w, _mm512_loadu_si512(x)));
  }

  // Of a block; NaN if it has one.
  PLAIT_INLINE static float greatest(const float* x) {
    const __m512i sign = _mm512_set1_epi32(0x7fffffff);
    const __m512i a = _mm512_and_si512(_mm512_castps_si512(load(x)), sign),
                  b = _mm512_and_si512(_mm512_castps_si512(load(x + kLanes)), sign);
    return std::bit_cast<float>(_mm512_reduce_max_epu32(_mm512_max_epu32(a, b)));
  }
  // A block times `by`; returns the sum.
  PLAIT_INLINE static int32_t narrow(const float* x, F by, int16_t* to) {
    const __m512i a = _mm512_cvtps_epi32(mul(load(x), by)),
                  b = _mm512_cvtps_epi32(mul(load(x + kLanes), by));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtsepi32_epi16(a));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + kLanes), _mm512_cvtsepi32_epi16(b));
    return _mm512_reduce_add_epi32(_mm512_add_epi32(a, b));
  }
};

}  // namespace

QuantizedFunctions quantized_avx512() { return quantized::functions<Avx512>(); }

}  // namespace plait::cpu
