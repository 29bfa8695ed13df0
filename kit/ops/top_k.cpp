#include "kit/ops/top_k.hpp"

namespace plait::kit {

TopK parse_top_k(const plait_op_desc& d) {
  need_operands(d, 1, 2);
  const plait_shape& x = d.inputs[0];
  need_floats(x, "x");
  need(x.ndim >= 1, "needs rows, found " + text(x));
  TopK t;
  t.extent = x.dims[x.ndim - 1];
  t.k = AttrReader(d, kTopKAttrs).integer("k");
  need(t.k <= t.extent, "k is " + std::to_string(t.k) + ", expected at most the " +
                            std::to_string(t.extent) + " numbers of a row of " + text(x));
  t.rows = elements(x) / t.extent;
  t.out.assign(x.dims, x.dims + x.ndim - 1);
  t.out.push_back(t.k);
  if (!has_outputs(d)) return t;
  need_count(d.outputs[0], t.rows * t.k, "values");
  need(d.outputs[0].dtype == x.dtype, "values are " + text(d.outputs[0]) + " of " + text(x));
  need(d.outputs[1].dtype == PLAIT_I32, "index is " + text(d.outputs[1]) + ", expected i32");
  need_count(d.outputs[1], t.rows * t.k, "index");
  return t;
}

TopK parse_top_k_grad(const plait_op_desc& d) {
  need_operands(d, 2, 1);
  const plait_shape &dy = d.inputs[0], &index = d.inputs[1];
  need_floats(dy, "dy");
  need_index(index, "index");
  need(dy.ndim >= 1 && same_dims(dy, index),
       "needs one index for each number, found " + text(dy) + " and " + text(index));
  TopK t;
  t.k = dy.dims[dy.ndim - 1];
  t.extent = AttrReader(d, kTopKGradAttrs).integer("extent");
  t.rows = 1;
  for (uint32_t i = 0; i + 1 < dy.ndim; ++i) t.rows *= dy.dims[i];
  t.out.assign(dy.dims, dy.dims + dy.ndim - 1);
  t.out.push_back(t.extent);
  if (has_outputs(d)) need_n_floats(d.outputs[0], t.rows * t.extent, "dx");
  return t;
}

}  // namespace plait::kit
