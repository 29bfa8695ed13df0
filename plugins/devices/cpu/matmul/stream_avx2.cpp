#include <immintrin.h>

#define PLAIT_TARGET __attribute__((target("avx2,fma,f16c")))
#include "plugins/devices/cpu/matmul/stream_loops.hpp"

namespace plait::cpu {
namespace {

struct Avx2 {
  using F = __m256;
  using T = float;
  static constexpr int64_t kLanes = 8;
  static constexpr int kSums = 12;
  PLAIT_INLINE static F load(const float* p) { return _mm256_loadu_ps(p); }
  PLAIT_INLINE static F load_part(const float* p, int64_t n) {
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                                                    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
  }
  PLAIT_INLINE static F zero() { return _mm256_setzero_ps(); }
  PLAIT_INLINE static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  PLAIT_INLINE static F add(F a, F b) { return _mm256_add_ps(a, b); }
  PLAIT_INLINE static float sum(F a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }
};

PLAIT_INLINE __m128i load_16(const uint16_t* p) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
}
PLAIT_INLINE __m128i load_16(const uint16_t* p, int64_t n) {
  alignas(16) uint16_t part[8] = {};
  for (int64_t i = 0; i < n; ++i) part[i] = p[i];
  return _mm_load_si128(reinterpret_cast<const __m128i*>(part));
}

struct Bf16 {
  using T = uint16_t;
  PLAIT_INLINE static __m256 widen(__m128i v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(v), 16));
  }
  PLAIT_INLINE static __m256 load(const T* p) { return widen(load_16(p)); }
  PLAIT_INLINE static __m256 load_part(const T* p, int64_t n) { return widen(load_16(p, n)); }
};

struct F16 {
  using T = uint16_t;
  PLAIT_INLINE static __m256 load(const T* p) { return _mm256_cvtph_ps(load_16(p)); }
  PLAIT_INLINE static __m256 load_part(const T* p, int64_t n) {
    return _mm256_cvtph_ps(load_16(p, n));
  }
};

}  // namespace

DotFunction dots_avx2(int64_t rows, Half weights) {
  return dots_of<Avx2, Bf16, F16>(rows, weights);
}

}  // namespace plait::cpu
