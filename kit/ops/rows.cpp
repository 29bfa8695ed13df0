#include "kit/ops/rows.hpp"

namespace plait::kit {

Rows rows_of(const plait_shape& s) {
  Rows r{1, s.ndim ? s.dims[s.ndim - 1] : 1};
  for (uint32_t i = 0; i + 1 < s.ndim; ++i) r.rows *= s.dims[i];
  return r;
}

Rows parse_rows(const plait_op_desc& d, uint32_t inputs) {
  need_operands(d, inputs, 1);
  const plait_shape& x = d.inputs[0];
  need(is_float(x.dtype) && x.ndim >= 1, "needs rows of floats, found " + text(x));
  for (uint32_t i = 1; i < inputs; ++i) need_same(x, d.inputs[i]);
  if (has_outputs(d)) need_same(d.outputs[0], x);
  return rows_of(x);
}

}  // namespace plait::kit
