#include <immintrin.h>

#include <bit>
#include <cstring>

#define PLAIT_TARGET __attribute__((target("avx2,fma,f16c")))
#include "plugins/devices/cpu/matmul/quantized_loops.hpp"

namespace plait::cpu {
namespace {

struct Avx2 {
  using F = __m256;
  static constexpr int64_t kLanes = 8;
  static constexpr int kSums = 8;
  PLAIT_INLINE static F load(const float* p) { return _mm256_loadu_ps(p); }
  PLAIT_INLINE static F load_part(const float* p, int64_t n) {
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                                                    _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)));
  }
  PLAIT_INLINE static void store(float* p, F v) { _mm256_storeu_ps(p, v); }
  PLAIT_INLINE static F zero() { return _mm256_setzero_ps(); }
  PLAIT_INLINE static F broadcast(float v) { return _mm256_set1_ps(v); }
  PLAIT_INLINE static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  PLAIT_INLINE static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  PLAIT_INLINE static float sum(F a) {
    __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    x = _mm_add_ps(x, _mm_movehl_ps(x, x));
    return _mm_cvtss_f32(_mm_add_ss(x, _mm_movehdup_ps(x)));
  }

  PLAIT_INLINE static F widen(const uint8_t* p) {
    const __m128i v = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(v));
  }
  PLAIT_INLINE static F widen_part(const uint8_t* p, int64_t n) {
    alignas(16) uint8_t part[16] = {};
    for (int64_t i = 0; i < n; ++i) part[i] = p[i];
    return widen(part);
  }

  // Tables of 8 levels each take the low three bits of an index; the fourth chooses one.
  PLAIT_INLINE static F levels(const uint8_t* p) {
    int32_t bytes;
    std::memcpy(&bytes, p, sizeof bytes);
    const __m128i v = _mm_cvtsi32_si128(bytes);
    const __m256i q = _mm256_cvtepu8_epi32(_mm_unpacklo_epi8(v, _mm_srli_epi16(v, 4)));
    return _mm256_blendv_ps(_mm256_permutevar8x32_ps(_mm256_loadu_ps(kit::kNf4), q),
                            _mm256_permutevar8x32_ps(_mm256_loadu_ps(kit::kNf4 + 8), q),
                            _mm256_castsi256_ps(_mm256_slli_epi32(q, 28)));
  }

  struct Words {
    __m256i low, high;
  };
  PLAIT_INLINE static Words numbers(const uint8_t* p) {
    return {_mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 16)))};
  }
  PLAIT_INLINE static Words numbers_part(const uint8_t* p, int64_t n) {
    alignas(32) uint8_t part[kWeightBlock] = {};
    for (int64_t i = 0; i < n; ++i) part[i] = p[i];
    return numbers(part);
  }
  PLAIT_INLINE static __m256i words(const int16_t* x) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
  }
  PLAIT_INLINE static F products(Words w, const int16_t* x) {
    return _mm256_cvtepi32_ps(_mm256_add_epi32(_mm256_madd_epi16(w.low, words(x)),
                                               _mm256_madd_epi16(w.high, words(x + 16))));
  }

  // Of a block; NaN if it has one.
  PLAIT_INLINE static float greatest(const float* x) {
    uint32_t most = 0;
    for (int64_t i = 0; i < kWeightBlock; ++i)
      most = std::max(most, std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu);
    return std::bit_cast<float>(most);
  }
  // A block times `by`; returns the sum.
  PLAIT_INLINE static int32_t narrow(const float* x, F by, int16_t* to) {
    alignas(32) int32_t whole[kLanes];
    int32_t sum = 0;
    for (int64_t i = 0; i < kWeightBlock; i += kLanes) {
      _mm256_store_si256(reinterpret_cast<__m256i*>(whole),
                         _mm256_cvtps_epi32(mul(load(x + i), by)));
      for (int64_t j = 0; j < kLanes; ++j) {
        to[i + j] = static_cast<int16_t>(whole[j]);
        sum += static_cast<int16_t>(whole[j]);
      }
    }
    return sum;
  }
};

}  // namespace

QuantizedFunctions quantized_avx2() { return quantized::functions<Avx2>(); }

}  // namespace plait::cpu
