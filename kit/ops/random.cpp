#include "kit/ops/random.hpp"

namespace plait::kit {
namespace {

constexpr plait_option kAll[] = {kRandomAttrs[0], kRandomAttrs[1], kRandomAttrs[2], kRandomAttrs[3],
                                 kRandomPart[0],  kRandomPart[1],  kRandomPart[2]};

// Which elements of the whole sample these are.
void set_part(Random& r, const AttrReader& attrs, const plait_shape& y) {
  r.run = r.per_sample;
  const int64_t total = attrs.integer("total");
  if (total == 0) return;
  const int64_t axis = attrs.integer("axis"), first = attrs.integer("first");
  need(axis >= 0 && axis < y.ndim && first >= 0 && first + y.dims[axis] <= total,
       "a part begins at " + std::to_string(first) + " of " + std::to_string(total) +
           " indices along axis " + std::to_string(axis) + ", found " + text(y));
  if (r.by_sample && axis == 0) {
    r.first_sample = first;
    return;
  }
  int64_t inner = 1;
  for (int64_t d = axis + 1; d < y.ndim; ++d) inner *= y.dims[d];
  r.run = y.dims[axis] * inner;
  r.runs = r.run ? r.per_sample / r.run : 0;
  r.stride = total * inner;
  r.first = first * inner;
}

}  // namespace

Random parse_random(const plait_op_desc& d) {
  need_operands(d, 1, 1);
  const plait_shape& counter = d.inputs[0];
  need(counter.dtype == PLAIT_I64 && (elements(counter) == 1 || elements(counter) == 2),
       "counter needs i64 with one or two elements, found " + text(counter));
  const AttrReader attrs(d, kAll);
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
  set_part(r, attrs, y);
  return r;
}

}  // namespace plait::kit
