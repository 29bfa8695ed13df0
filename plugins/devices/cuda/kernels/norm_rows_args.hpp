// The operands of the fast norm kernels: (rows, cols) each, or a number per row or per channel.
#pragma once

#include <cstdint>

namespace plait::cuda {

// bias and mean are null for rms_norm. wide: gain and bias are f32, else of the type of x.
struct NormRowsArgs {
  const void* x;
  const void* gain;
  const void* bias;
  void* y;
  float* mean;
  float* rstd;
  int64_t rows;
  int32_t cols;
  int32_t wide;
  float eps;
};

// The first stage of the gradient: dx, and for each of `parts` blocks of rows the sums of dgain
// and, for layer_norm, dbias: parts x (1 or 2) x cols. `row_threads` threads own a row.
struct NormGradRowsArgs {
  const void* x;
  const void* gain;
  const float* mean;
  const float* rstd;
  const void* dy;
  void* dx;
  float* sums;
  int64_t rows, parts;
  int32_t cols;
  int32_t wide;
  int32_t row_threads;
};

// The second stage: the sums of all parts, in order.
struct NormSumsArgs {
  const float* sums;
  void* dgain;
  void* dbias;
  int64_t parts;
  int32_t cols;
};

}  // namespace plait::cuda
