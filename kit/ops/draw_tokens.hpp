// One token drawn from each row of logits. R rows, V logits of a row.
#pragma once

#include "kit/draw_weight.hpp"
#include "kit/op_attrs.hpp"

namespace plait::kit {

struct DrawTokens {
  int64_t rows = 0, vocabulary = 0;  // R, V
  std::vector<int64_t> out;          // dims of the ids
};
// logits (R.., V), settings (R.., 3), numbers (R.., 8) -> ids (R..), log_probability (R..).
DrawTokens parse_draw_tokens(const plait_op_desc& d);

}  // namespace plait::kit
