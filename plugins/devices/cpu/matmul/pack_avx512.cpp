#include <immintrin.h>

#include <algorithm>

// gcc 12 warns about the deliberately undefined operands inside its own intrinsics.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif

#include "plugins/devices/cpu/matmul/pack.hpp"

#define PLAIT_AVX512 __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl")))
#define PLAIT_AVX512_INLINE \
  __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl"), always_inline)) inline

namespace plait::cpu {
namespace {

constexpr int kLanes = 16;

PLAIT_AVX512_INLINE __mmask16 first_lanes(int64_t count) {
  return static_cast<__mmask16>((1u << std::clamp<int64_t>(count, 0, kLanes)) - 1);
}

// Four vectors, named so that they stay in registers at every optimisation level.
struct Four {
  __m512 v0, v1, v2, v3;
};

// Converts vectors whose 128-bit quarters q hold rows 4q, 4q+1, 4q+2 and 4q+3 (one of the four
// each) at four columns into vectors with one column each.
PLAIT_AVX512_INLINE Four transpose_quarters(const Four& in) {
  const __m512 low01 = _mm512_unpacklo_ps(in.v0, in.v1);
  const __m512 high01 = _mm512_unpackhi_ps(in.v0, in.v1);
  const __m512 low23 = _mm512_unpacklo_ps(in.v2, in.v3);
  const __m512 high23 = _mm512_unpackhi_ps(in.v2, in.v3);
  return {_mm512_shuffle_ps(low01, low23, 0x44), _mm512_shuffle_ps(low01, low23, 0xee),
          _mm512_shuffle_ps(high01, high23, 0x44), _mm512_shuffle_ps(high01, high23, 0xee)};
}

// The quarters of rows i, i+4, i+8 and i+12 at one column, merged while loading: no shuffle is
// needed.
PLAIT_AVX512_INLINE __m512 gather_quarters(const float* from, int64_t stride) {
  __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(from));
  v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(from + 4 * stride));
  v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(from + 8 * stride));
  return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(from + 12 * stride));
}

PLAIT_AVX512_INLINE Four gather_16x4(const float* from, int64_t stride) {
  return {gather_quarters(from, stride), gather_quarters(from + stride, stride),
          gather_quarters(from + 2 * stride, stride), gather_quarters(from + 3 * stride, stride)};
}

PLAIT_AVX512_INLINE void store_turned(const Four& in, float* to, int64_t width) {
  const Four transposed = transpose_quarters(in);
  _mm512_storeu_ps(to, transposed.v0);
  _mm512_storeu_ps(to + width, transposed.v1);
  _mm512_storeu_ps(to + 2 * width, transposed.v2);
  _mm512_storeu_ps(to + 3 * width, transposed.v3);
}

// 16 rows and 4 columns at `from` become 4 rows of 16 lanes at `to`.
PLAIT_AVX512_INLINE void transpose_16x4(const float* from, int64_t stride, float* to,
                                        int64_t width) {
  store_turned(gather_16x4(from, stride), to, width);
}

// Merges 16 columns of a row into the quarter of four vectors selected by `mask`.
template <__mmask16 mask>
PLAIT_AVX512_INLINE void merge_row(const float* row, __m512& v0, __m512& v1, __m512& v2,
                                   __m512& v3) {
  v0 = _mm512_mask_broadcast_f32x4(v0, mask, _mm_loadu_ps(row));
  v1 = _mm512_mask_broadcast_f32x4(v1, mask, _mm_loadu_ps(row + 4));
  v2 = _mm512_mask_broadcast_f32x4(v2, mask, _mm_loadu_ps(row + 8));
  v3 = _mm512_mask_broadcast_f32x4(v3, mask, _mm_loadu_ps(row + 12));
}

template <__mmask16 mask>
PLAIT_AVX512_INLINE void merge_rows(const float* from, int64_t stride, Four& c0, Four& c1, Four& c2,
                                    Four& c3) {
  merge_row<mask>(from, c0.v0, c1.v0, c2.v0, c3.v0);
  merge_row<mask>(from + stride, c0.v1, c1.v1, c2.v1, c3.v1);
  merge_row<mask>(from + 2 * stride, c0.v2, c1.v2, c2.v2, c3.v2);
  merge_row<mask>(from + 3 * stride, c0.v3, c1.v3, c2.v3, c3.v3);
}

// The first quarters of four vectors: 16 columns of a row.
PLAIT_AVX512_INLINE void first_row(const float* row, __m512& v0, __m512& v1, __m512& v2,
                                   __m512& v3) {
  v0 = _mm512_castps128_ps512(_mm_loadu_ps(row));
  v1 = _mm512_castps128_ps512(_mm_loadu_ps(row + 4));
  v2 = _mm512_castps128_ps512(_mm_loadu_ps(row + 8));
  v3 = _mm512_castps128_ps512(_mm_loadu_ps(row + 12));
}

// Like transpose_16x4, but for 16 columns, touching every line of the source once: rows a power of
// two apart share a cache set that can't hold all sixteen.
PLAIT_AVX512_INLINE void transpose_16x16(const float* from, int64_t stride, float* to,
                                         int64_t width) {
  Four c0, c1, c2, c3;
  first_row(from, c0.v0, c1.v0, c2.v0, c3.v0);
  first_row(from + stride, c0.v1, c1.v1, c2.v1, c3.v1);
  first_row(from + 2 * stride, c0.v2, c1.v2, c2.v2, c3.v2);
  first_row(from + 3 * stride, c0.v3, c1.v3, c2.v3, c3.v3);
  merge_rows<0x00f0>(from + 4 * stride, stride, c0, c1, c2, c3);
  merge_rows<0x0f00>(from + 8 * stride, stride, c0, c1, c2, c3);
  merge_rows<0xf000>(from + 12 * stride, stride, c0, c1, c2, c3);
  store_turned(c0, to, width);
  store_turned(c1, to + 4 * width, width);
  store_turned(c2, to + 8 * width, width);
  store_turned(c3, to + 12 * width, width);
}

// Whole groups of 16 columns; returns the number of columns done.
PLAIT_AVX512 int64_t turn_16xk(const float* rows, int64_t stride, int64_t k, float* out,
                               int64_t w) {
  int64_t column = 0;
  for (; column + 16 <= k; column += 16)
    transpose_16x16(rows + column, stride, out + column * w, w);
  for (; column + 4 <= k; column += 4) transpose_16x4(rows + column, stride, out + column * w, w);
  return column;
}

// Like transpose_16x4, but for fewer rows: the last row is repeated in place of the missing ones.
PLAIT_AVX512 void turn_ragged(const float* from, int64_t stride, int64_t rows, float* to,
                              int64_t width) {
  const auto row = [=](int64_t i) { return _mm_loadu_ps(from + std::min(i, rows - 1) * stride); };
  alignas(64) float quarters[4][kLanes];
  for (int64_t i = 0; i < kLanes; ++i) _mm_store_ps(&quarters[i % 4][i / 4 * 4], row(i));
  store_turned({_mm512_load_ps(quarters[0]), _mm512_load_ps(quarters[1]),
                _mm512_load_ps(quarters[2]), _mm512_load_ps(quarters[3])},
               to, width);
}

// The last columns, fewer than four.
PLAIT_AVX512 void turn_columns(const float* rows, int64_t stride, int64_t used, int64_t k,
                               int64_t w, float* out) {
  for (int64_t column = 0; column < k; ++column) {
    alignas(64) float lanes[kLanes] = {};
    for (int64_t row = 0; row < used; ++row) lanes[row] = rows[row * stride + column];
    _mm512_storeu_ps(out + column * w, _mm512_load_ps(lanes));
  }
}

PLAIT_AVX512 void transpose_in(const float* source, int64_t stride, int64_t l, int64_t k, int64_t w,
                               float* panel) {
  for (int64_t lane = 0; lane < w; lane += kLanes) {
    const int64_t used = std::min<int64_t>(l - lane, kLanes);
    if (used <= 0) break;
    const float* rows = source + lane * stride;
    float* out = panel + lane;
    int64_t column = used == kLanes ? turn_16xk(rows, stride, k, out, w) : 0;
    for (; column + 4 <= k; column += 4)
      turn_ragged(rows + column, stride, used, out + column * w, w);
    turn_columns(rows + column, stride, used, k - column, w, out + column * w);
  }
}

PLAIT_AVX512 void copy_in(const float* source, int64_t stride, int64_t l, int64_t k, int64_t w,
                          float* panel) {
  const __mmask16 last = first_lanes(l - (w - kLanes));
  for (int64_t row = 0; row < k; ++row) {
    const float* from = source + row * stride;
    float* to = panel + row * w;
    int64_t lane = 0;
    for (; lane + kLanes < w; lane += kLanes)
      _mm512_storeu_ps(to + lane, _mm512_loadu_ps(from + lane));
    _mm512_storeu_ps(to + lane, _mm512_maskz_loadu_ps(last, from + lane));
  }
}

PLAIT_AVX512_INLINE void put(float* to, __mmask16 mask, __m512 value, bool add) {
  if (add) value = _mm512_add_ps(value, _mm512_maskz_loadu_ps(mask, to));
  _mm512_mask_storeu_ps(to, mask, value);
}

PLAIT_AVX512 Four gather_ragged(const float* from, int64_t rows, int64_t stride) {
  alignas(64) float quarters[4][kLanes] = {};
  for (int64_t i = 0; i < rows; ++i) {
    _mm_store_ps(&quarters[i % 4][i / 4 * 4], _mm_loadu_ps(from + i * stride));
  }
  return {_mm512_load_ps(quarters[0]), _mm512_load_ps(quarters[1]), _mm512_load_ps(quarters[2]),
          _mm512_load_ps(quarters[3])};
}

PLAIT_AVX512 void transpose_out(const float* panel, int64_t r, int64_t l, int64_t w, bool add,
                                float* target, int64_t stride) {
  // Sixteen rows of the panel make one vector of the target; four lanes are transposed at a time.
  for (int64_t row = 0; row < r; row += kLanes) {
    const int64_t rows = std::min<int64_t>(kLanes, r - row);
    const __mmask16 mask = first_lanes(rows);
    for (int64_t lane = 0; lane < l; lane += 4) {
      const float* from = panel + row * w + lane;
      const Four transposed =
          transpose_quarters(rows == kLanes ? gather_16x4(from, w) : gather_ragged(from, rows, w));
      float* to = target + lane * stride + row;
      put(to, mask, transposed.v0, add);
      if (lane + 1 < l) put(to + stride, mask, transposed.v1, add);
      if (lane + 2 < l) put(to + 2 * stride, mask, transposed.v2, add);
      if (lane + 3 < l) put(to + 3 * stride, mask, transposed.v3, add);
    }
  }
}

PLAIT_AVX512_INLINE __m512i load_words(const uint16_t* from, __mmask16 mask) {
  return _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
}

PLAIT_AVX512 void pair_in(const uint16_t* source, int64_t stride, int64_t l, int64_t k, int64_t w,
                          float* panel) {
  for (int64_t row = 0; row < k; ++row) {
    const uint16_t* even = source + 2 * row * stride;
    const uint16_t* odd = even + stride;
    for (int64_t lane = 0; lane < w; lane += kLanes) {
      const __mmask16 mask = first_lanes(l - lane);
      const __m512i high = _mm512_slli_epi32(load_words(odd + lane, mask), 16);
      _mm512_storeu_si512(panel + row * w + lane,
                          _mm512_or_si512(load_words(even + lane, mask), high));
    }
  }
}

PLAIT_AVX512 void widen(const uint16_t* from, float* to, int64_t n) {
  for (int64_t i = 0; i < n; i += kLanes) {
    const __mmask16 mask = first_lanes(n - i);
    _mm512_mask_storeu_epi32(to + i, mask, _mm512_slli_epi32(load_words(from + i, mask), 16));
  }
}

// To nearest even; NaN stays NaN.
PLAIT_AVX512 void narrow(const float* from, uint16_t* to, int64_t n) {
  const __m512i half = _mm512_set1_epi32(0x7fff), one = _mm512_set1_epi32(1),
                quiet = _mm512_set1_epi32(0x400000);
  for (int64_t i = 0; i < n; i += kLanes) {
    const __mmask16 mask = first_lanes(n - i);
    const __m512 value = _mm512_maskz_loadu_ps(mask, from + i);
    const __m512i bits = _mm512_castps_si512(value);
    const __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), one);
    __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(half, last));
    rounded =
        _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), bits, quiet);
    _mm256_mask_storeu_epi16(to + i, mask, _mm512_cvtepi32_epi16(_mm512_srli_epi32(rounded, 16)));
  }
}

}  // namespace

PackFunctions pack_functions_avx512() {
  return {transpose_in, copy_in, pair_in, widen, narrow, transpose_out};
}

}  // namespace plait::cpu
