#include <immintrin.h>

#define PLAIT_TARGET __attribute__((target("avx2,fma")))
#include "plugins/devices/cpu/matmul/activation.hpp"
#include "plugins/devices/cpu/matmul/activation_loops.hpp"

namespace plait::cpu {
namespace {

struct Avx2 {
  using F = __m256;
  static constexpr int64_t kLanes = 8;
  PLAIT_INLINE static F load(const float* p) { return _mm256_loadu_ps(p); }
  PLAIT_INLINE static void store(float* p, F a) { _mm256_storeu_ps(p, a); }
  PLAIT_INLINE static __m256i part(int64_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                              _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
  }
  PLAIT_INLINE static F load_part(const float* p, int64_t n) {
    return _mm256_maskload_ps(p, part(n));
  }
  PLAIT_INLINE static void store_part(float* p, int64_t n, F a) {
    _mm256_maskstore_ps(p, part(n), a);
  }
  PLAIT_INLINE static F set(float a) { return _mm256_set1_ps(a); }
  PLAIT_INLINE static F add(F a, F b) { return _mm256_add_ps(a, b); }
  PLAIT_INLINE static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
  PLAIT_INLINE static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
  PLAIT_INLINE static F div(F a, F b) { return _mm256_div_ps(a, b); }
  PLAIT_INLINE static F min(F a, F b) { return _mm256_min_ps(a, b); }
  PLAIT_INLINE static F max(F a, F b) { return _mm256_max_ps(a, b); }
  PLAIT_INLINE static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
  PLAIT_INLINE static F fnma(F a, F b, F c) { return _mm256_fnmadd_ps(a, b, c); }
  PLAIT_INLINE static F abs(F a) { return _mm256_andnot_ps(set(-0.0f), a); }
  PLAIT_INLINE static F sign_of(F magnitude, F sign) {
    return _mm256_or_ps(abs(magnitude), _mm256_and_ps(set(-0.0f), sign));
  }
  PLAIT_INLINE static F less_select(F a, F b, F x, F y) {
    return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  PLAIT_INLINE static F round(F a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  PLAIT_INLINE static F power_of_two(__m256i n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
  }
  PLAIT_INLINE static F scale(F a, F n) {
    // In two steps: 2^n may be out of range although the product is not.
    const __m256i whole = _mm256_cvtps_epi32(n);
    const __m256i half = _mm256_srai_epi32(whole, 1);
    return mul(mul(a, power_of_two(half)), power_of_two(_mm256_sub_epi32(whole, half)));
  }
};

}  // namespace

ActivationFunction activation_avx2(Activation activation) {
  return activation_of<Avx2>(activation);
}

}  // namespace plait::cpu
