// What the kernels of cross_entropy receive.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// R rows of C logits, of which the first `valid` are classes: those from `first` on, of `total`.
struct CrossEntropyArgs {
  AnyPointer x, label;
  AnyPointer loss, log_sum_exp;  // of the gradient: inputs, the first one the gradient of the loss
  AnyPointer dx;                 // of the gradient alone; may be x
  int64_t rows, cols, valid, first, total;
  double smoothing;
  uint32_t part;  // 1: other parts of the classes are elsewhere
};

}  // namespace plait::cuda
