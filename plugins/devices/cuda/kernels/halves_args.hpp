// What the kernels of split_halves and join_halves receive.
#pragma once

#include <cstdint>

namespace plait::cuda {

struct HalvesArgs {
  float* x;
  uint16_t* high;
  int16_t* low;
  int64_t n;
};

inline constexpr int kHalvesBlock = 256, kHalvesPerThread = 4;  // elements

}  // namespace plait::cuda
