#include "kit/ops/norm.hpp"

namespace plait::kit {

Norm parse_norm(const plait_op_desc& d, bool layer, bool grad) {
  if (grad)
    need_operands(d, layer ? 5 : 4, layer ? 3 : 2);
  else
    need_operands(d, layer ? 3 : 2, layer ? 3 : 2);
  const plait_shape& x = d.inputs[0];
  need(x.ndim >= 1 && is_float(x.dtype), "needs rows of floats, found " + text(x));
  const Norm n{rows_of(x), AttrReader(d, kNormAttrs).real("eps")};
  const auto per_row = [&](const plait_shape& s) { need_n_floats(s, n.x.rows, "a row operand"); };
  const auto per_channel = [&](const plait_shape& s, const char* what) {
    need_floats(s, what);
    need(s.ndim == 1 && s.dims[0] == n.x.cols, std::string(what) + " has shape " + text(s) +
                                                   ", rows have " + std::to_string(n.x.cols) +
                                                   " channels");
  };
  per_channel(d.inputs[1], "gain");
  if (grad) {
    for (uint32_t i = 2; i + 1 < d.n_inputs; ++i) per_row(d.inputs[i]);
    need(same_dims(d.inputs[d.n_inputs - 1], x),
         "dy is " + text(d.inputs[d.n_inputs - 1]) + ", expected the extents of " + text(x));
    need_floats(d.inputs[d.n_inputs - 1], "dy");
  } else if (layer) {
    per_channel(d.inputs[2], "bias");
  }
  if (!has_outputs(d)) return n;
  need_floats(d.outputs[0], "the first result");
  need(same_dims(d.outputs[0], x),
       "the first result is " + text(d.outputs[0]) + ", expected the extents of " + text(x));
  for (uint32_t i = 1; i < d.n_outputs; ++i)
    grad ? per_channel(d.outputs[i], "a gradient") : per_row(d.outputs[i]);
  return n;
}

}  // namespace plait::kit
