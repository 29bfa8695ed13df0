// What the kernel of draw_tokens takes. R rows, V logits of a row.
#pragma once

#include <cstdint>

namespace plait::cuda {

constexpr unsigned kDrawBlock = 1024;  // threads of a row

struct DrawTokensArgs {
  const float* logits;     // (R, V)
  const float* settings;   // (R, 3)
  const int32_t* numbers;  // (R, 8)
  int32_t* ids;            // (R)
  float* log_probability;  // (R)
  int32_t vocabulary;      // V
};

}  // namespace plait::cuda
