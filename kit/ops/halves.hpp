// An f32 as two halves of 16 bits: a bf16 that products read, and the bits that it lacks.
//   bits(x) = (high << 16) + low      high  the bits of a bf16      low  -32768 to 32767
// For each x that is not a NaN there is one such pair, so nothing is lost. `high` is x rounded to
// the nearest bf16, of two equally near to the one further from 0. To even is not possible: then
// 65537 numbers would have the same `high`, for which there are 65536 values of `low`.
#pragma once

#include <bit>
#include <cstdint>

#include "kit/op_attrs.hpp"

namespace plait::kit {

struct Halves {
  uint16_t high = 0;
  int16_t low = 0;
};

// A NaN stays one, and loses the bits that a bf16 has no room for. What is nearer to infinity than
// to the largest bf16 has infinity as its `high`, and a negative `low`.
constexpr Halves split_halves(float x) {
  const uint32_t v = std::bit_cast<uint32_t>(x);
  if ((v & 0x7fffffffu) > 0x7f800000u) return {static_cast<uint16_t>((v | 0x400000u) >> 16), 0};
  return {static_cast<uint16_t>((v + 0x8000u) >> 16), static_cast<int16_t>(v & 0xffffu)};
}
constexpr float join_halves(Halves h) {
  const auto low = static_cast<uint32_t>(static_cast<int32_t>(h.low));
  return std::bit_cast<float>((static_cast<uint32_t>(h.high) << 16) + low);
}

// x (.., C) f32 <-> high (.., C) bf16, low (.., 2 C) u8: two bytes of each element, as an integer
// of 16 bits lies in memory. Both functions return the number of elements of x.
inline constexpr int64_t kLowBytes = 2;
int64_t parse_split_halves(const plait_op_desc& d);
int64_t parse_join_halves(const plait_op_desc& d);
// The shape of `low` for that of x or `high`.
plait_shape low_shape(plait_shape high);

}  // namespace plait::kit
