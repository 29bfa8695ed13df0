#include "kit/ops/draw_tokens.hpp"

#include "kit/dtype.hpp"

namespace plait::kit {
namespace {

void need_type(const plait_shape& s, uint32_t type, const char* what) {
  need(s.dtype == type,
       std::string(what) + ": found " + text(s) + ", expected " + dtype_name(type));
}
// n of each row.
void need_of_rows(const plait_shape& s, uint32_t type, int64_t rows, int64_t n, const char* what) {
  need_type(s, type, what);
  need(s.ndim >= 1 && s.dims[s.ndim - 1] == n && elements(s) == rows * n,
       std::string(what) + ": found " + text(s) + ", expected " + std::to_string(n) +
           " for each of " + std::to_string(rows) + " rows of logits");
}

}  // namespace

DrawTokens parse_draw_tokens(const plait_op_desc& d) {
  need_operands(d, 3, 2);
  const plait_shape& logits = d.inputs[0];
  need_type(logits, PLAIT_F32, "logits");
  need(logits.ndim >= 1 && logits.dims[logits.ndim - 1] >= 1,
       "logits: found " + text(logits) + ", expected rows of one or more");
  DrawTokens t;
  t.vocabulary = logits.dims[logits.ndim - 1];
  need(t.vocabulary <= kMostDrawn, "a row has " + std::to_string(t.vocabulary) +
                                       " logits, expected at most " + std::to_string(kMostDrawn));
  t.rows = elements(logits) / t.vocabulary;
  t.out.assign(logits.dims, logits.dims + logits.ndim - 1);
  need_of_rows(d.inputs[1], PLAIT_F32, t.rows, kDrawSettings, "settings");
  need_of_rows(d.inputs[2], PLAIT_I32, t.rows, kDrawNumbers, "numbers");
  if (!has_outputs(d)) return t;
  need_type(d.outputs[0], PLAIT_I32, "ids");
  need_count(d.outputs[0], t.rows, "ids");
  need_type(d.outputs[1], PLAIT_F32, "log_probability");
  need_count(d.outputs[1], t.rows, "log_probability");
  return t;
}

}  // namespace plait::kit
