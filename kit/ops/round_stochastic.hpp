// Stochastic rounding of f32 to bf16: to one of the two neighbours at random, so that the mean over
// many draws is the number itself. See Gupta et al., Deep Learning with Limited Numerical
// Precision, 2015.
//   x  bits of an f32      u  16 uniform bits      y = the upper 16 bits of x + u
#pragma once

#include <bit>
#include <cstdint>

#include "kit/op_attrs.hpp"
#include "kit/philox.hpp"

namespace plait::kit {

inline constexpr plait_option kRoundStochasticAttrs[] = {
    int_option("seed", "0", "of the run"),
    int_option("stream", "0", "which numbers: one for each tensor"),
    at_least(int_option("first", "0", "of a block of a tensor: the element that it begins with"),
             0),
    at_least(int_option("run", "0",
                        "elements of the block that follow each other in the tensor; 0: all do"),
             0),
    at_least(int_option("stride", "0", "elements of the tensor from one run to the next"), 0),
    at_least(int_option("begin", "0", "the element of the block that x begins with"), 0),
};

struct RoundStochastic {
  uint64_t seed = 0;
  int64_t stream = 0;
  int64_t first = 0, run = 0, stride = 0, begin = 0;
  int64_t n = 0;      // elements
  uint32_t step = 0;  // type of the step
  // The number within its tensor of element i, and how many from there on follow each other.
  int64_t element(int64_t i) const {
    const int64_t e = begin + i;
    return run == 0 ? first + e : first + e / run * stride + e % run;
  }
  int64_t in_a_row(int64_t i) const { return run == 0 ? n - i : run - (begin + i) % run; }
};
RoundStochastic parse_round_stochastic(const plait_op_desc& d);

// A Philox block has numbers for so many elements: element e takes the 16 bits e % 8 of block
// e / 8, counted from the low ones of its first word.
inline constexpr int64_t kRoundedByBlock = 8;
constexpr uint32_t rounding_bits(const PhiloxBlock& block, int64_t e) {
  const auto at = static_cast<uint32_t>(e % kRoundedByBlock);
  return block[at / 2] >> (16 * (at % 2)) & 0xffffu;
}

// bits: 16 of them. Zero, infinities and what bf16 can hold stay as they are, a NaN becomes quiet.
// Beyond the largest finite number y is that one: it never overflows.
constexpr uint16_t round_stochastic(float x, uint32_t bits) {
  const uint32_t v = std::bit_cast<uint32_t>(x), size = v & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>((v | 0x400000u) >> 16);
  return static_cast<uint16_t>((size >= 0x7f7f0000u ? v : v + bits) >> 16);
}

}  // namespace plait::kit
