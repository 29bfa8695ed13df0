// The 16-bit floats. Conversions to 16 bits round to nearest even; a NaN stays one and becomes
// quiet. All are without branches, so that compilers vectorise loops over them.
#pragma once

#include <bit>
#include <cstdint>

namespace plait::kit {

constexpr float from_bf16(uint16_t v) { return std::bit_cast<float>(uint32_t{v} << 16); }

constexpr uint16_t to_bf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const uint32_t rounded = bits + 0x7fffu + ((bits >> 16) & 1u), nan = bits | 0x400000u;
  return static_cast<uint16_t>(((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded) >> 16);
}

constexpr float from_f16(uint16_t v) {
  const uint32_t size = v & 0x7fffu, sign = uint32_t{v & 0x8000u} << 16;
  const uint32_t quiet = size > 0x7c00u ? 0x400000u : 0u;
  const uint32_t normal = ((size << 13) + (size >= 0x7c00u ? 0x70000000u : 0x38000000u)) | quiet;
  // Below 2^-14: mantissa * 2^-24.
  const auto small =
      std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(size)) * 0x1p-24f);
  return std::bit_cast<float>(sign | (size < 0x400u ? small : normal));
}

constexpr uint16_t to_f16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v), size = bits & 0x7fffffffu;
  const uint32_t nan = 0x7e00u | ((size >> 13) & 0x3ffu);
  const uint32_t normal = (size - 0x38000000u + 0xfffu + ((size >> 13) & 1u)) >> 13;
  // Below 2^-14: adding 0.5 leaves the rounded mantissa in the low bits.
  const uint32_t small = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0.5f) - 0x3f000000u;
  const uint32_t finite = size < 0x38800000u ? small : normal;
  const uint32_t large = size > 0x7f800000u ? nan : 0x7c00u;  // 65520 rounds beyond the largest
  return static_cast<uint16_t>(((bits >> 16) & 0x8000u) | (size >= 0x477ff000u ? large : finite));
}

}  // namespace plait::kit
