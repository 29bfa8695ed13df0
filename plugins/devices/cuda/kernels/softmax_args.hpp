// What the kernels of softmax and log_softmax receive.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// R rows of C elements, all operands of one type.
struct SoftmaxArgs {
  AnyPointer x;    // of the gradients: y
  AnyPointer dy;   // of the gradients alone
  AnyPointer out;  // may be x
  int64_t rows, cols;
  uint32_t log;  // 1: log_softmax
};

}  // namespace plait::cuda
