#include <immintrin.h>

#define PLAIT_TARGET __attribute__((target("avx2,fma")))
#include "plugins/devices/cpu/matmul/stream_loops.hpp"

namespace plait::cpu {
namespace {

struct Avx2 {
  using F = __m256;
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

}  // namespace

DotFunction dots_avx2(int64_t rows) { return dots_of<Avx2>(rows); }

}  // namespace plait::cpu
