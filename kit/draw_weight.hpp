// Arithmetic of drawing a token from logits, for host and GPU. A probability is a whole number, its
// weight, and made of whole numbers but for one difference (f32) and one product (f64). So sums do
// not depend on their order, and every device draws the same token of the same logits, whatever its
// compiler, its exp and its threads.
//   V vocabulary, below 2^24: the weights of a row sum up to less than 2^64
#pragma once

#include <cstdint>

namespace plait::kit {

inline constexpr int64_t kMostDrawn = (int64_t{1} << 24) - 1;  // V at most

// The distance of a logit from the greatest one is the logarithm to base 2 of how much less likely
// it is, in steps of 2^-25. From kFarthest on its weight is 0.
inline constexpr uint32_t kFarthest = 41u << 25;
inline constexpr int kWeightBits = 40;  // the weight at distance 0 is 2^40

constexpr double distance_scale(double temperature) {
  return -1.4426950408889634 * 0x1p25 / temperature;
}
// less: the logit minus the greatest; not NaN.
constexpr uint32_t distance_of(float less, double scale) {
  const double d = static_cast<double>(less) * scale;
  return d < static_cast<double>(kFarthest) ? static_cast<uint32_t>(static_cast<int32_t>(d))
                                            : kFarthest;
}

// 2^x = 1 + x * (c0 + x * (c1 + ...)) for x in [0, 1): a minimax polynomial, relative error below
// 3e-9, in units of 2^-32. It never falls where x grows.
inline constexpr uint64_t kPowerOf2[] = {0xb17215af, 0x3d7faaf3, 0x0e34488a,
                                         0x027a1724, 0x0051b593, 0x000e2a0c};

// 2^40 * 2^-(distance * 2^-25), rounded down. distance: kFarthest at most.
constexpr uint64_t weight_of(uint32_t distance) {
  const int32_t exponent = -static_cast<int32_t>(distance);
  const uint64_t x = (static_cast<uint32_t>(exponent) & 0x1ffffffu) << 7;
  uint64_t y = (kPowerOf2[5] * x >> 32) + kPowerOf2[4];
  y = (y * x >> 32) + kPowerOf2[3];
  y = (y * x >> 32) + kPowerOf2[2];
  y = (y * x >> 32) + kPowerOf2[1];
  y = (y * x >> 32) + kPowerOf2[0];
  y = (y * x >> 32) + (uint64_t{1} << 32);
  return (y << (kWeightBits - 32)) >> -(exponent >> 25);
}

// A number that is less where the logit is greater; equal for 0 and -0. bits: of the f32.
constexpr uint32_t rank_of_bits(uint32_t bits) {
  if (bits == 0x80000000u) bits = 0;
  return bits & 0x80000000u ? bits : 0x7fffffffu - bits;
}

// floor(a * b / 2^64).
constexpr uint64_t multiply_high(uint64_t a, uint64_t b) {
  const uint64_t a0 = a & 0xffffffffu, a1 = a >> 32, b0 = b & 0xffffffffu, b1 = b >> 32;
  const uint64_t middle = a1 * b0 + (a0 * b0 >> 32), other = (middle & 0xffffffffu) + a0 * b1;
  return a1 * b1 + (middle >> 32) + (other >> 32);
}

// Settings of a row, f32: temperature (0: the greatest logit), top_p (1: all), min_p (0: none).
inline constexpr int64_t kDrawSettings = 3;
// Numbers of a row, i32: how many ids may be drawn, the first ones (0: the row draws nothing);
// top_k (0: all); whether the log-probability is wanted; the counter of Philox, which is the index
// of the token and the sequence; its key, the seed. The words of 64 bits lie low word first.
inline constexpr int64_t kDrawNumbers = 8;
enum : int { kDrawIds, kDrawTopK, kDrawLog, kDrawIndex, kDrawSequence, kDrawSeed = 6 };

// What settings and numbers of a row say.
inline constexpr uint64_t kAllOfSum = uint64_t{1} << 32;
struct DrawRow {
  int64_t ids = 0;  // [0, ids) may be drawn; 0: nothing is
  bool greedy = false, log_probability = false;
  double scale = 0;    // of distances; not of greedy rows
  int64_t top_k = 0;   // 0: all
  uint64_t top_p = 0;  // in units of 2^-32; kAllOfSum: all
  uint64_t least = 0;  // the least weight, by min_p
  // The part of a sum of weights that top_p keeps, at least 1.
  constexpr uint64_t part_of(uint64_t total) const {
    const uint64_t part = (total >> 32) * top_p + ((total & 0xffffffffu) * top_p >> 32);
    return part > 0 ? part : 1;
  }
};

// Any settings and numbers are a row: the device cannot refuse them.
constexpr DrawRow draw_row(const float* settings, const int32_t* numbers, int64_t vocabulary) {
  const double temperature = settings[0], top_p = settings[1], min_p = settings[2];
  DrawRow r;
  r.ids = numbers[kDrawIds] < vocabulary ? numbers[kDrawIds] : vocabulary;
  if (r.ids < 0) r.ids = 0;
  r.top_k = numbers[kDrawTopK] > 0 && numbers[kDrawTopK] < r.ids ? numbers[kDrawTopK] : 0;
  r.log_probability = numbers[kDrawLog] != 0;
  r.greedy = !(temperature > 0);
  if (!r.greedy) r.scale = distance_scale(temperature);
  r.top_p = !(top_p < 1) ? kAllOfSum : top_p > 0 ? static_cast<uint64_t>(top_p * 0x1p32) : 0;
  r.least = !(min_p > 0) ? 0 : static_cast<uint64_t>((min_p < 1 ? min_p : 1) * 0x1p40);
  return r;
}

// The id of a row without one.
enum : int32_t { kNotDrawn = -1, kLogitNan = -2, kLogitsImpossible = -3, kLogitInfinite = -4 };

}  // namespace plait::kit
