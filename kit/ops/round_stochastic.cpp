#include "kit/ops/round_stochastic.hpp"

#include <string>

namespace plait::kit {

RoundStochastic parse_round_stochastic(const plait_op_desc& d) {
  need_operands(d, 2, 1);
  const plait_shape &x = d.inputs[0], &step = d.inputs[1];
  need(x.dtype == PLAIT_F32, "x needs type f32, found " + text(x));
  need((step.dtype == PLAIT_F64 || step.dtype == PLAIT_F32) && elements(step) == 1,
       "step needs one number of f64 or f32, found " + text(step));
  const AttrReader attrs(d, kRoundStochasticAttrs);
  RoundStochastic r;
  r.seed = static_cast<uint64_t>(attrs.integer("seed"));
  r.stream = attrs.integer("stream");
  r.first = attrs.integer("first");
  r.run = attrs.integer("run");
  r.stride = attrs.integer("stride");
  r.begin = attrs.integer("begin");
  r.n = elements(x);
  r.step = step.dtype;
  need(r.run == 0 || r.stride >= r.run, "runs of " + std::to_string(r.run) +
                                            " elements overlap, found a stride of " +
                                            std::to_string(r.stride));
  if (has_outputs(d)) {
    need(d.outputs[0].dtype == PLAIT_BF16, "y needs type bf16, found " + text(d.outputs[0]));
    need_count(d.outputs[0], r.n, "y");
  }
  return r;
}

}  // namespace plait::kit
