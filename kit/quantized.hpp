// Weights as small numbers with scales, row by row: what a row of C columns is, how it is made and
// read. The same bits on every device.
//   int8: bytes  C numbers q;               floats  a scale for each 32 columns.
//         w = scale * (q - 128): 255 steps, the same on both sides of 0.
//   nf4:  bytes  numbers q, two a byte, the even column in the low half; behind them a code for
//         each 64 columns.                  floats  least and step for each 256 codes.
//         w = kNf4[q] * (least + step * code): the 16 levels of Dettmers et al. 2023
//         (arXiv:2305.14314, appendix E), and scales that are quantized once more. Scales are not
//         negative, so their codes count from the least of them: the paper takes off the mean,
//         which needs a sign.
// Rows know nothing of each other; blocks begin at the first column.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

namespace plait::kit {

enum class QuantFormat : uint8_t { kInt8, kNf4 };

inline constexpr int64_t kInt8Block = 32;              // columns of a scale; the last may have
inline constexpr int64_t kNf4Block = 64;               // fewer
inline constexpr int64_t kNf4Group = 256 * kNf4Block;  // columns that share least and step

// One level; as a function, because code of a GPU has no arrays of the host.
constexpr float nf4_level(int q) {
  const float levels[16] = {
      -1.0f,
      -0.6961928009986877f,
      -0.5250730514526367f,
      -0.39491748809814453f,
      -0.28444138169288635f,
      -0.18477343022823334f,
      -0.09105003625154495f,
      0.0f,
      0.07958029955625534f,
      0.16093020141124725f,
      0.24611230194568634f,
      0.33791524171829224f,
      0.44070982933044434f,
      0.5626170039176941f,
      0.7229568362236023f,
      1.0f,
  };
  return levels[q];
}
inline constexpr float kNf4[16] = {
    nf4_level(0),  nf4_level(1),  nf4_level(2),  nf4_level(3),  nf4_level(4),  nf4_level(5),
    nf4_level(6),  nf4_level(7),  nf4_level(8),  nf4_level(9),  nf4_level(10), nf4_level(11),
    nf4_level(12), nf4_level(13), nf4_level(14), nf4_level(15),
};
inline constexpr uint8_t kNf4Zero = 7;

inline constexpr int64_t quant_ceil(int64_t n, int64_t by) { return (n + by - 1) / by; }

// What a row takes.
struct QuantRow {
  QuantFormat format = QuantFormat::kInt8;
  int64_t columns = 0;
  constexpr bool nf4() const { return format == QuantFormat::kNf4; }
  constexpr int64_t block() const { return nf4() ? kNf4Block : kInt8Block; }
  constexpr int64_t blocks() const { return quant_ceil(columns, block()); }
  constexpr int64_t number_bytes() const { return nf4() ? quant_ceil(columns, 2) : columns; }
  constexpr int64_t bytes() const { return number_bytes() + (nf4() ? blocks() : 0); }
  // Columns that quantize_part() takes at a time.
  constexpr int64_t part() const { return nf4() ? kNf4Group : kInt8Block; }
  constexpr int64_t floats() const { return nf4() ? 2 * quant_ceil(columns, kNf4Group) : blocks(); }

  // Of a row's bytes and floats: the scale of a block, the number of a column, and that weight,
  // which is exact in double.
  float scale(const uint8_t* row, const float* scales, int64_t at) const {
    if (!nf4()) return scales[at];
    const float* pair = scales + 2 * (at / (kNf4Group / kNf4Block));
    return std::fma(pair[1], static_cast<float>(row[number_bytes() + at]), pair[0]);
  }
  int number(const uint8_t* row, int64_t column) const {
    return nf4() ? row[column / 2] >> (column % 2 * 4) & 15 : row[column];
  }
  double weight(const uint8_t* row, const float* scales, int64_t column) const {
    const int q = number(row, column);
    return double{scale(row, scales, column / block())} * (nf4() ? double{kNf4[q]} : q - 128);
  }
};

namespace quant_detail {

inline constexpr uint32_t kInfinite = 0x7f800000u, kLeast = 0x04000000u;  // 2^-119

// The bits of the greatest absolute value.
inline uint32_t greatest(const float* w, int64_t n) {
  uint32_t most = 0;
  for (int64_t i = 0; i < n; ++i)
    most = std::max(most, std::bit_cast<uint32_t>(w[i]) & 0x7fffffffu);
  return most;
}

// How many halves between two levels lie below x.
constexpr uint8_t nearest_nf4(float x) {
  uint8_t q = 0;
  for (int i = 0; i < 15; ++i) q += x > (nf4_level(i) + nf4_level(i + 1)) / 2;
  return q;
}

}  // namespace quant_detail

// A block of int8; returns its scale. Rounded to nearest even. A block of numbers below 2^-119 is
// zeros, as its scale would be subnormal; one with a number that is not finite has the scale NaN,
// so that its products are NaN. A scale is at most 2^-7 of the greatest float, so that 128 times it
// is finite; a number beyond 127 times that scale becomes 127 times it.
inline float quantize_block(const float* w, int64_t n, uint8_t* q) {
  using namespace quant_detail;
  const uint32_t most = greatest(w, n);
  if (most < kLeast || most >= kInfinite) {
    std::fill(q, q + n, uint8_t{128});
    return most < kLeast ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  constexpr float kSteps = 127, kRound = 12582912;  // 1.5 * 2^23: a sum with it has no fraction
  constexpr float kMost = std::numeric_limits<float>::max() / 128;
  const float scale = std::min(std::bit_cast<float>(most) / kSteps, kMost);
  for (int64_t i = 0; i < n; ++i) {
    const float near = std::clamp(w[i] / scale, -kSteps, kSteps) + kRound;
    q[i] = static_cast<uint8_t>(static_cast<int32_t>(near - kRound) + 128);
  }
  return scale;
}

// Blocks of nf4 that share least and step: n columns, at most kNf4Group. A block's scale is its
// greatest absolute value as its code gives it, never more than the greatest of the group; its
// numbers are nearest for that scale, the lower one of two as near. Blocks of numbers below 2^-119
// count as zeros; with a number that is not finite all n columns are NaN.
inline void quantize_nf4(const float* w, int64_t n, uint8_t* numbers, uint8_t* codes, float* pair) {
  using namespace quant_detail;
  constexpr float kSteps = 255;
  float most[kNf4Group / kNf4Block];
  float least = std::numeric_limits<float>::max(), top = 0;
  bool finite = true;
  for (int64_t b = 0; b < quant_ceil(n, kNf4Block); ++b) {
    const uint32_t bits = greatest(w + b * kNf4Block, std::min(kNf4Block, n - b * kNf4Block));
    finite = finite && bits < kInfinite;
    most[b] = bits < kLeast ? 0 : std::bit_cast<float>(bits);
    least = std::min(least, most[b]);
    top = std::max(top, most[b]);
  }
  std::fill(numbers, numbers + quant_ceil(n, 2), static_cast<uint8_t>(kNf4Zero * 17));
  float step = finite ? (top - least) / kSteps : 0;
  if (step < std::bit_cast<float>(kLeast)) step = 0;
  if (step > 0 && std::fma(step, kSteps, least) > top)
    step = std::bit_cast<float>(std::bit_cast<uint32_t>(step) - 1);
  pair[0] = finite ? least : std::numeric_limits<float>::quiet_NaN();
  pair[1] = step;
  for (int64_t b = 0; b < quant_ceil(n, kNf4Block); ++b) {
    codes[b] = 0;
    if (!finite) continue;
    if (step > 0)
      codes[b] = static_cast<uint8_t>(std::min((most[b] - least) / step + 0.5f, kSteps));
    const float scale = std::fma(step, static_cast<float>(codes[b]), least);
    if (scale == 0) continue;
    for (int64_t i = b * kNf4Block; i < std::min(n, (b + 1) * kNf4Block); ++i) {
      const int shift = static_cast<int>(i % 2 * 4);
      numbers[i / 2] = static_cast<uint8_t>((numbers[i / 2] & 0xf0 >> shift) |
                                            nearest_nf4(w[i] / scale) << shift);
    }
  }
}

// Columns [first, first + n) of a row, of which `q` and `scales` are the whole: a block of int8, or
// blocks of nf4 that share least and step.
inline void quantize_part(const QuantRow& row, const float* w, int64_t first, int64_t n, uint8_t* q,
                          float* scales) {
  if (row.nf4())
    quantize_nf4(w, n, q + first / 2, q + row.number_bytes() + first / kNf4Block,
                 scales + first / kNf4Group * 2);
  else
    scales[first / kInt8Block] = quantize_block(w, n, q + first);
}

}  // namespace plait::kit
