// The operands of the fast cross-entropy kernels.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// (rows, cols) logits, of which the first `valid` columns are the classes first, first + 1, ... of
// `total`; labels, loss and so on have a number per row. Forward writes loss and lse; the gradient
// reads dloss and lse and writes dlogits, which may lie on the logits.
struct CrossEntropyRowsArgs {
  const void* logits;
  AnyPointer labels;  // i32, i64 or u8
  float* loss;
  float* lse;
  const float* dloss;
  void* dlogits;
  int64_t rows, first, total;
  int32_t cols, valid;
  int32_t part;  // the loss lacks the log-sum-exp
  float smoothing;
};

}  // namespace plait::cuda
