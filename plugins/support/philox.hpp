// Philox (kit/philox.hpp) for the op `random`.
//
// The number that an element gets is part of the op's contract, the same on every device. Key: the
// low and high word of the seed. Counter of block q (elements 4q to 4q+3):
//   (q low, q high or sample, step low, stream low ^ rotl(stream high, 16))
// If the op gets only the step, elements are counted over the whole output and word 1 is the high
// half of q. If it also gets the index of its first sample, they are counted within a sample (a row
// of the leading dim) and word 1 is the sample's index, so that a micro-batch draws the same
// numbers as the whole batch would.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "kit/philox.hpp"

namespace plait::support {

constexpr uint32_t stream_word(int64_t stream) {
  const auto s = static_cast<uint64_t>(stream);
  return static_cast<uint32_t>(s) ^ std::rotl(static_cast<uint32_t>(s >> 32), 16);
}

// The block of that counter; high: the sample, or the high word of q. stream: a stream_word().
constexpr kit::PhiloxBlock random_block(uint64_t seed, uint32_t stream, int64_t step, int64_t high,
                                        uint64_t q) {
  return kit::philox(
      {static_cast<uint32_t>(q), static_cast<uint32_t>(high), static_cast<uint32_t>(step), stream},
      static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

// In [0, 1), a multiple of 2^-24.
constexpr float to_uniform(uint32_t word) { return static_cast<float>(word >> 8) * 0x1p-24f; }

// Two standard normal numbers from two words (Box and Muller).
inline std::array<double, 2> to_normal(uint32_t w0, uint32_t w1) {
  const double radius = std::sqrt(-2.0 * std::log((static_cast<double>(w0 >> 8) + 1.0) * 0x1p-24));
  const double angle = 2.0 * std::numbers::pi * (static_cast<double>(w1 >> 8) * 0x1p-24);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

}  // namespace plait::support
