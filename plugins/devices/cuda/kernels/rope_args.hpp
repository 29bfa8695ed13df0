// What the kernels of rope_table and rope receive.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// A launch computes at most so many pairs of each token: the frequencies of the pairs are in the
// arguments of the kernel, which have 4 KiB.
inline constexpr int64_t kPairsOfLaunch = 448;

struct RopeTableArgs {
  AnyPointer positions, lengths;  // data nullptr: positions are 0, 1, ..; no sample is long
  float *cos, *sin;
  int64_t tokens, sample;       // all tokens; of a sample
  int64_t pairs, first, count;  // of a token; first pair and number of pairs of this launch
  int64_t original;             // a longer sample takes long_frequency
  float amplitude;
  float frequency[kPairsOfLaunch], long_frequency[kPairsOfLaunch];
};
static_assert(sizeof(RopeTableArgs) <= 4096);

struct RopeArgs {
  AnyPointer x;
  AnyPointer y;  // may be x
  const float *cos, *sin;
  int64_t samples, tokens, heads, channels, pairs;
  uint32_t by_sample, adjacent, inverse;
};

}  // namespace plait::cuda
