#include <immintrin.h>

// gcc 12 warns about the deliberately undefined operands inside its own intrinsics.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#define PLAIT_TARGET __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#include "plugins/devices/cpu/matmul/activation.hpp"
#include "plugins/devices/cpu/matmul/activation_loops.hpp"

namespace plait::cpu {
namespace {

struct Avx512 {
  using F = __m512;
  static constexpr int64_t kLanes = 16;
  PLAIT_INLINE static F load(const float* p) { return _mm512_loadu_ps(p); }
  PLAIT_INLINE static void store(float* p, F a) { _mm512_storeu_ps(p, a); }
  PLAIT_INLINE static __mmask16 part(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
  PLAIT_INLINE static F load_part(const float* p, int64_t n) {
    return _mm512_maskz_loadu_ps(part(n), p);
  }
  PLAIT_INLINE static void store_part(float* p, int64_t n, F a) {
    _mm512_mask_storeu_ps(p, part(n), a);
  }
  PLAIT_INLINE static F set(float a) { return _mm512_set1_ps(a); }
  PLAIT_INLINE static F add(F a, F b) { return _mm512_add_ps(a, b); }
  PLAIT_INLINE static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
  PLAIT_INLINE static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
  PLAIT_INLINE static F div(F a, F b) { return _mm512_div_ps(a, b); }
  PLAIT_INLINE static F min(F a, F b) { return _mm512_min_ps(a, b); }
  PLAIT_INLINE static F max(F a, F b) { return _mm512_max_ps(a, b); }
  PLAIT_INLINE static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
  PLAIT_INLINE static F fnma(F a, F b, F c) { return _mm512_fnmadd_ps(a, b, c); }
  PLAIT_INLINE static F abs(F a) { return _mm512_andnot_ps(set(-0.0f), a); }
  PLAIT_INLINE static F sign_of(F magnitude, F sign) {
    return _mm512_or_ps(abs(magnitude), _mm512_and_ps(set(-0.0f), sign));
  }
  PLAIT_INLINE static F less_select(F a, F b, F x, F y) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), y, x);
  }
  PLAIT_INLINE static F round(F a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  PLAIT_INLINE static F scale(F a, F n) { return _mm512_scalef_ps(a, n); }
};

}  // namespace

ActivationFunction activation_avx512(Activation activation) {
  return activation_of<Avx512>(activation);
}

}  // namespace plait::cpu
