// The 16-bit floats. Conversions to 16 bits round to nearest even; NaN stays NaN.
#pragma once

#include <bit>
#include <cstdint>

namespace plait::support {

constexpr float from_bf16(uint16_t v) { return std::bit_cast<float>(uint32_t{v} << 16); }

constexpr uint16_t to_bf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

constexpr float from_f16(uint16_t v) {
  const uint32_t sign = uint32_t{v & 0x8000u} << 16, mantissa = v & 0x3ffu;
  const uint32_t exponent = (v >> 10) & 0x1fu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  if (exponent == 0) {  // zero or subnormal: mantissa * 2^-24
    const float size = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -size : size;
  }
  return std::bit_cast<float>(sign | ((exponent + 112u) << 23) | (mantissa << 13));
}

constexpr uint16_t to_f16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v), sign = (bits >> 16) & 0x8000u;
  const uint32_t size = bits & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u | ((size >> 13) & 0x3ffu));
  if (size >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // rounds beyond 65504
  if (size < 0x38800000u) {  // below 2^-14: adding 0.5 leaves the rounded mantissa in the low bits
    const float shifted = std::bit_cast<float>(size) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  return static_cast<uint16_t>(sign | ((size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13));
}

}  // namespace plait::support
