// What the kernels of layer_norm and rms_norm receive.
#pragma once

#include "plugins/devices/cuda/kernels/element.hpp"

namespace plait::cuda {

// R rows of C channels. Operands that rms_norm does not have are unused.
struct NormArgs {
  AnyPointer x, gain, bias, y, mean, rstd;
  int64_t rows, cols;
  double eps;
  uint32_t layer;  // 1: layer_norm
};

struct NormGradArgs {
  AnyPointer x, gain, mean, rstd, dy, dx, d_gain, d_bias;
  int64_t rows, cols;
  uint32_t layer;
};

}  // namespace plait::cuda
