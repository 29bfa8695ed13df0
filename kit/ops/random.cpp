#include "kit/ops/random.hpp"

namespace plait::kit {

Random parse_random(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape& counter = d.inputs[0];
  need(counter.dtype == PLAIT_I64 && (elements(counter) == 1 || elements(counter) == 2),
       "counter needs i64 with one or two elements, found " + text(counter));
  const AttrReader attrs(d, kRandomAttrs);
  Random r;
  r.normal = attrs.text("kind") == "normal";
  r.seed = static_cast<uint64_t>(attrs.integer("seed"));
  r.stream = attrs.integer("stream");
  r.by_sample = elements(counter) == 2;
  if (!has_outputs(d)) {
    r.out = attrs.ints("shape");
    return r;
  }
  const plait_shape& y = d.outputs[0];
  need_floats(y, "y");
  r.samples = r.by_sample && y.ndim ? y.dims[0] : 1;
  r.per_sample = r.samples ? elements(y) / r.samples : 0;
  return r;
}

}  // namespace plait::kit
