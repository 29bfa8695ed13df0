#include <immintrin.h>

#include <algorithm>

#include "plugins/devices/cpu/matmul/pack.hpp"

#define PLAIT_AVX2 __attribute__((target("avx2,fma")))
#define PLAIT_AVX2_INLINE __attribute__((target("avx2,fma"), always_inline)) inline

namespace plait::cpu {
namespace {

constexpr int kLanes = 8;

// Four vectors, named so that they stay in registers at every optimisation level.
struct Four {
  __m256 v0, v1, v2, v3;
};

// Converts vectors whose halves h hold rows 4h, 4h+1, 4h+2 and 4h+3 (one of the four each) at four
// columns into vectors with one column each.
PLAIT_AVX2_INLINE Four turn_halves(const Four& in) {
  const __m256 low01 = _mm256_unpacklo_ps(in.v0, in.v1);
  const __m256 high01 = _mm256_unpackhi_ps(in.v0, in.v1);
  const __m256 low23 = _mm256_unpacklo_ps(in.v2, in.v3);
  const __m256 high23 = _mm256_unpackhi_ps(in.v2, in.v3);
  return {_mm256_shuffle_ps(low01, low23, 0x44), _mm256_shuffle_ps(low01, low23, 0xee),
          _mm256_shuffle_ps(high01, high23, 0x44), _mm256_shuffle_ps(high01, high23, 0xee)};
}

PLAIT_AVX2_INLINE __m256 gather_halves(const float* from, int64_t stride) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(from)),
                              _mm_loadu_ps(from + 4 * stride), 1);
}

// Eight rows and four columns at `from`, transposed.
PLAIT_AVX2_INLINE Four transpose_8x4(const float* from, int64_t stride) {
  return turn_halves({gather_halves(from, stride), gather_halves(from + stride, stride),
                      gather_halves(from + 2 * stride, stride),
                      gather_halves(from + 3 * stride, stride)});
}

PLAIT_AVX2_INLINE void put(float* to, __m256 value, bool add) {
  _mm256_storeu_ps(to, add ? _mm256_add_ps(value, _mm256_loadu_ps(to)) : value);
}

PLAIT_AVX2 void transpose_in(const float* source, int64_t stride, int64_t l, int64_t k, int64_t w,
                             float* panel) {
  for (int64_t lane = 0; lane < w; lane += kLanes) {
    const int64_t used = std::min<int64_t>(l - lane, kLanes);
    if (used <= 0) break;
    const float* rows = source + lane * stride;
    float* out = panel + lane;
    int64_t column = 0;
    if (used == kLanes) {
      for (; column + 4 <= k; column += 4) {
        const Four transposed = transpose_8x4(rows + column, stride);
        float* to = out + column * w;
        _mm256_storeu_ps(to, transposed.v0);
        _mm256_storeu_ps(to + w, transposed.v1);
        _mm256_storeu_ps(to + 2 * w, transposed.v2);
        _mm256_storeu_ps(to + 3 * w, transposed.v3);
      }
    }
    for (; column < k; ++column) {
      alignas(32) float lanes[kLanes] = {};
      for (int64_t row = 0; row < used; ++row) lanes[row] = rows[row * stride + column];
      _mm256_storeu_ps(out + column * w, _mm256_load_ps(lanes));
    }
  }
}

PLAIT_AVX2 void copy_in(const float* source, int64_t stride, int64_t l, int64_t k, int64_t w,
                        float* panel) {
  for (int64_t row = 0; row < k; ++row) {
    const float* from = source + row * stride;
    float* to = panel + row * w;
    int64_t lane = 0;
    for (; lane + kLanes <= l; lane += kLanes)
      _mm256_storeu_ps(to + lane, _mm256_loadu_ps(from + lane));
    for (; lane < l; ++lane) to[lane] = from[lane];
    for (; lane < w; ++lane) to[lane] = 0.0f;
  }
}

PLAIT_AVX2 void transpose_out(const float* panel, int64_t r, int64_t l, int64_t w, bool add,
                              float* target, int64_t stride) {
  for (int64_t row = 0; row < r; row += kLanes) {
    const int64_t rows = std::min<int64_t>(kLanes, r - row);
    for (int64_t lane = 0; lane < l; lane += 4) {
      const float* from = panel + row * w + lane;
      const int64_t lanes = std::min<int64_t>(4, l - lane);
      if (rows < kLanes) {
        for (int64_t j = 0; j < lanes; ++j) {
          float* to = target + (lane + j) * stride + row;
          for (int64_t i = 0; i < rows; ++i)
            to[i] = add ? to[i] + from[i * w + j] : from[i * w + j];
        }
        continue;
      }
      const Four transposed = transpose_8x4(from, w);
      float* to = target + lane * stride + row;
      put(to, transposed.v0, add);
      if (lanes > 1) put(to + stride, transposed.v1, add);
      if (lanes > 2) put(to + 2 * stride, transposed.v2, add);
      if (lanes > 3) put(to + 3 * stride, transposed.v3, add);
    }
  }
}

}  // namespace

PackFunctions pack_functions_avx2() {
  return {transpose_in, copy_in, nullptr, nullptr, nullptr, transpose_out};
}

}  // namespace plait::cpu
