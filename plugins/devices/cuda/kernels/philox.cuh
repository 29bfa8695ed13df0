// Philox4x32 with 10 rounds on the device, the numbers of kit/philox.hpp.
#pragma once

#include "plugins/devices/cuda/kernels/device.cuh"

namespace plait::cuda {

__device__ inline uint4 philox(uint4 counter, uint32_t key0, uint32_t key1) {
#pragma unroll
  for (int round = 0; round < 10; ++round) {
    const uint32_t a_low = 0xD2511F53u * counter.x, a_high = __umulhi(0xD2511F53u, counter.x);
    const uint32_t b_low = 0xCD9E8D57u * counter.z, b_high = __umulhi(0xCD9E8D57u, counter.z);
    counter = make_uint4(b_high ^ counter.y ^ key0, b_low, a_high ^ counter.w ^ key1, a_low);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// The block of that counter, as random_block() of plugins/support/philox.hpp; high: the sample, or
// the high word of q.
__device__ inline uint4 random_block(uint64_t seed, uint32_t stream, int64_t step, int64_t high,
                                     uint64_t q) {
  return philox(make_uint4(static_cast<uint32_t>(q), static_cast<uint32_t>(high),
                           static_cast<uint32_t>(step), stream),
                static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32));
}

// Word i of a block.
__device__ inline uint32_t word_of(uint4 block, uint32_t i) {
  return i == 0 ? block.x : i == 1 ? block.y : i == 2 ? block.z : block.w;
}

// In [0, 1), a multiple of 2^-24.
__device__ inline float to_uniform(uint32_t word) {
  return static_cast<float>(word >> 8) * 0x1p-24f;
}

// Two standard normal numbers from two words (Box and Muller).
__device__ inline double2 to_normal(uint32_t w0, uint32_t w1) {
  constexpr double kPi = 3.141592653589793;
  const double radius = sqrt(-2.0 * log((static_cast<double>(w0 >> 8) + 1.0) * 0x1p-24));
  const double angle = 2.0 * kPi * (static_cast<double>(w1 >> 8) * 0x1p-24);
  double sine = 0, cosine = 0;
  sincos(angle, &sine, &cosine);
  return make_double2(radius * cosine, radius * sine);
}

}  // namespace plait::cuda
