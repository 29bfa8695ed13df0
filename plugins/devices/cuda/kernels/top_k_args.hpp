// What the kernels of top_k and its gradient take.
#pragma once

#include <cstdint>

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

constexpr unsigned kTopKBlock = 256;

struct TopKArgs {
  const void* x;
  void* values;  // of the same type
  int32_t* index;
  int64_t count, extent, k;  // numbers of x, and of one of its rows
};

struct TopKGradArgs {
  AnyPointer dy, index, dx;
  int64_t count, extent, k;  // numbers of dx, and of one of its rows
};

}  // namespace plait::cuda
