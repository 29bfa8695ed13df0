// Stochastic rounding on the device, the numbers of kit/ops/round_stochastic.hpp.
#pragma once

#include "plugins/devices/cuda/kernels/philox.cuh"
#include "plugins/devices/cuda/kernels/round_stochastic_args.hpp"

namespace plait::cuda {

__device__ inline int64_t element_of(const RoundStochasticArgs& a, int64_t i) {
  const int64_t e = a.begin + i;
  return a.run == 0 ? a.first + e : a.first + e / a.run * a.stride + e % a.run;
}

// The block with the bits of element e: eight elements share one.
__device__ inline uint4 rounding_block(const RoundStochasticArgs& a, int64_t step, int64_t e) {
  const auto q = static_cast<uint64_t>(e / 8);
  return random_block(a.seed, a.stream, step, static_cast<int64_t>(q >> 32), q);
}
__device__ inline uint32_t rounding_bits(uint4 block, int64_t e) {
  const auto at = static_cast<uint32_t>(e % 8);
  return word_of(block, at / 2) >> (16 * (at % 2)) & 0xffffu;
}

// bits: 16 of them. Beyond the largest finite number y is that one; a NaN becomes quiet.
__device__ inline uint16_t round_stochastic(float x, uint32_t bits) {
  const uint32_t v = __float_as_uint(x), size = v & 0x7fffffffu;
  if (size > 0x7f800000u) return static_cast<uint16_t>((v | 0x400000u) >> 16);
  return static_cast<uint16_t>((size >= 0x7f7f0000u ? v : v + bits) >> 16);
}

}  // namespace plait::cuda
