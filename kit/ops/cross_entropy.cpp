#include "kit/ops/cross_entropy.hpp"

#include <algorithm>

namespace plait::kit {
namespace {

constexpr plait_option kAll[] = {kCrossEntropyAttrs[0], kCrossEntropyPart[0], kCrossEntropyPart[1]};

}  // namespace

CrossEntropy parse_cross_entropy(const plait_op_desc& d, bool grad) {
  need_operands(d, grad ? 4 : 2, grad ? 1 : 2);
  const plait_shape &x = d.inputs[0], &label = d.inputs[1];
  need(x.ndim >= 1 && is_float(x.dtype), "needs float logits (R.., C), found " + text(x));
  need(is_index(label.dtype), "needs integer class indices, found " + text(label));
  const AttrReader attrs(d, kAll);
  CrossEntropy c{rows_of(x), x.dtype, label.dtype, attrs.real("label_smoothing")};
  c.total = attrs.integer("total");
  c.part = c.total > 0;
  c.first = attrs.integer("first");
  if (!c.part) c.total = c.x.cols;
  c.valid = std::clamp<int64_t>(c.total - c.first, 0, c.x.cols);
  need(elements(label) == c.x.rows, "labels have shape " + text(label) + ", logits " + text(x) +
                                        " need one label per row of " + std::to_string(c.x.cols) +
                                        " classes");
  const auto per_row = [&](const plait_shape& s) { need_n_floats(s, c.x.rows, "a row operand"); };
  if (grad) {
    per_row(d.inputs[2]);
    per_row(d.inputs[3]);
  }
  if (!has_outputs(d)) return c;
  if (grad) {
    need_same(d.outputs[0], x);
  } else {
    per_row(d.outputs[0]);
    per_row(d.outputs[1]);
  }
  return c;
}

}  // namespace plait::kit
