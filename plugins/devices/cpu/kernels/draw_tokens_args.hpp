// What the vectorised loops of draw_tokens take. R rows, V logits of a row.
#pragma once

#include <cstdint>

namespace plait::cpu {

struct DrawTokensArgs {
  const float* logits;     // (R, V)
  const float* settings;   // (R, 3)
  const int32_t* numbers;  // (R, 8)
  int64_t vocabulary;      // V
  int32_t* ids;            // (R)
  float* log_probability;  // (R)
};

}  // namespace plait::cpu
