// Operands of the norm rows; a separate header, because the vectorised code is compiled several
// times.
#pragma once

#include <cstdint>

namespace plait::cpu {

// R rows of C channels. `bias`, `mean` and `dbias` are null for rms_norm.
struct NormArgs {
  int64_t cols;
  float eps;
  const float* x;
  const float* gain;            // (C)
  const float* bias = nullptr;  // (C)
  const float* dy = nullptr;    // (R, C), backward
  float* mean = nullptr;        // (R)
  float* rstd = nullptr;        // (R)
  float* y = nullptr;           // (R, C); dx in backward
};

}  // namespace plait::cpu
