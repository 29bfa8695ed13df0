// The 8-bit floats of the OCP: e4m3 (no infinities: the largest code is NaN) and e5m2. Conversions
// to them round to nearest even and saturate, infinities as well; a NaN stays one. All are without
// branches, so that compilers vectorise loops over them.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace plait::kit {

struct E4m3 {
  static constexpr int kMantissa = 3, kExponentBias = 7;
  static constexpr uint32_t kLargest = 0x7e, kNan = 0x7f;  // codes; 448
  static constexpr bool kHasInfinity = false;
};
struct E5m2 {
  static constexpr int kMantissa = 2, kExponentBias = 15;
  static constexpr uint32_t kLargest = 0x7b, kNan = 0x7f;  // 57344
  static constexpr bool kHasInfinity = true;
};

template <class F>
constexpr float from_f8(uint8_t v) {
  constexpr int kShift = 23 - F::kMantissa;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - F::kExponentBias) << 23;
  // Numbers below the least normal one are mantissa * this.
  constexpr float kStep =
      std::bit_cast<float>(static_cast<uint32_t>(128 - F::kExponentBias - F::kMantissa) << 23);
  const uint32_t size = v & 0x7fu, sign = uint32_t{v & 0x80u} << 24;
  uint32_t bits = (size << kShift) + kRebias;
  const auto small =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(size)) * kStep);
  bits = size < (1u << F::kMantissa) ? small : bits;
  if constexpr (F::kHasInfinity)
    bits = size > F::kLargest ? 0x7f800000u | ((size - F::kLargest - 1) << kShift) : bits;
  bits = size >= F::kNan - (F::kHasInfinity ? 2u : 0u) ? bits | 0x7fc00000u : bits;
  return std::bit_cast<float>(sign | bits);
}

template <class F>
constexpr uint8_t to_f8(float v) {
  constexpr int kShift = 23 - F::kMantissa;
  constexpr uint32_t kRebias = static_cast<uint32_t>(127 - F::kExponentBias) << 23;
  constexpr uint32_t kHalf = (1u << (kShift - 1)) - 1;
  constexpr uint32_t kLeastNormal = static_cast<uint32_t>(128 - F::kExponentBias) << 23;
  // A sum with it keeps steps of the least numbers: the low bits are the rounded mantissa.
  constexpr uint32_t kMagic = static_cast<uint32_t>(151 - F::kExponentBias - F::kMantissa) << 23;
  const uint32_t bits = std::bit_cast<uint32_t>(v), size = bits & 0x7fffffffu;
  const uint32_t normal = (size - kRebias + kHalf + ((size >> kShift) & 1u)) >> kShift;
  const uint32_t small =
      std::bit_cast<uint32_t>(std::bit_cast<float>(size) + std::bit_cast<float>(kMagic)) - kMagic;
  const uint32_t finite = std::min(size < kLeastNormal ? small : normal, F::kLargest);
  return static_cast<uint8_t>(((bits >> 24) & 0x80u) | (size > 0x7f800000u ? F::kNan : finite));
}

// The scale s of numbers of which `most` is the greatest absolute value: the least power of two
// with most / s <= the greatest number of the format, so 448 or 57344. x / s is exact, and so is
// the product of a scale with what was rounded: rounding keeps as many bits whatever s is. Thus the
// numbers do not depend on what else shares their scale, but for those 2^-15 and 2^-30 below the
// greatest, which are rounded to steps of s * 2^-9 and s * 2^-16.
// Zeros have the scale 1; no scale is below 2^-100, so that s * x is a normal f32 and bf16. With a
// number that is not finite the scale is NaN, and so are all products.
template <class F>
constexpr float f8_scale(float most) {
  constexpr uint32_t kInfinite = 0x7f800000u, kNan = 0x7fc00000u, kLeast = 27u << 23;
  // Both formats' greatest number is 1.75 * 2^kMost.
  constexpr uint32_t kMost = (F::kLargest >> F::kMantissa) - F::kExponentBias;
  const uint32_t bits = std::bit_cast<uint32_t>(most);
  const uint32_t exponent = (bits + 0x1fffffu) >> 23;  // one more where most > 1.75 * 2^e
  const uint32_t scale = exponent > kMost ? (exponent - kMost) << 23 : 0;
  const uint32_t finite = bits == 0 ? 0x3f800000u : std::max(scale, kLeast);
  return std::bit_cast<float>(bits >= kInfinite ? kNan : finite);
}
// 1 / scale, exact; 0 of NaN, whose numbers are all 0.
constexpr float f8_inverse(float scale) {
  const uint32_t bits = std::bit_cast<uint32_t>(scale);
  return bits > 0x7f800000u ? 0.0f : std::bit_cast<float>((254u << 23) - bits);
}

}  // namespace plait::kit
