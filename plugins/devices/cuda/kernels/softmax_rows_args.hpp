// The operands of the fast softmax kernels.
#pragma once

#include <cstdint>

namespace plait::cuda {

// (rows, cols) each, of one type; `out` may lie on x or dy. Gradients: x is the result of the op.
struct SoftmaxRowsArgs {
  const void* x;
  const void* dy;
  void* out;
  int64_t rows;
  int32_t cols;
  int32_t log;  // log_softmax
};

}  // namespace plait::cuda
