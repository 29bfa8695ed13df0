// What the kernels of reduce receive.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

enum : uint32_t { kReduceSum, kReduceMax, kReduceSquares };

// Extents and strides in elements of x, outermost first.
struct ReduceDims {
  int64_t extents[8], strides[8];
  int32_t rank;
};

struct ReduceArgs {
  AnyPointer x, y;
  int64_t outputs, summed;  // elements of y; of each sum
  ReduceDims kept, reduced;
  uint32_t kind;
  uint32_t by_block;  // 1: a block for each element of y, else a thread
};

}  // namespace plait::cuda
