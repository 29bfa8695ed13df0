// Cross-entropy of logits (R.., C) against class indices (R..): a loss and a log-sum-exp per row, f32; of f64
// in f64.
//
// Over a part of the classes (attributes first, total: its first class, classes of all parts) the loss is what the parts add up to,
// without the log-sum-exp, and the log-sum-exp is that of the part.
#include "engine/base/error.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

void check_operands(const Application& a) {
  const plait_shape &x = a.in[0], &label = a.in[1];
  if (x.ndim < 1 || !is_float(x.dtype))
    fail_invalid(a.where() + " needs float logits (R.., C), found " + text(x));
  if (is_float(label.dtype))
    fail_invalid(a.where() + " needs integer class indices, found " + text(label));
  Dims rows(x.dims, x.dims + x.ndim - 1);
  if (dims_of(label) != rows)
    fail_invalid(a.where() + " labels have shape " + text(label) + ", logits " + text(x) +
                 " need one label per row of " + std::to_string(x.dims[x.ndim - 1]) + " classes");
  const double s = a.attrs.real("label_smoothing", 0);
  if (!(s >= 0 && s < 1))
    fail_invalid(a.where() + " smoothing must be in [0, 1), found " + std::to_string(s));
}

std::vector<plait_shape> infer(const Application& a) {
  a.arity(2, 2);
  check_operands(a);
  const plait_shape rows = make_shape(accumulation_dtype(a.in[0].dtype), dims_of(a.in[1]));
  return {rows, rows};
}

std::vector<plait_shape> infer_grad(const Application& a) {
  a.arity(4, 4);
  check_operands(a);
  return {a.in[0]};
}

void gradient(Use& u) {
  if (u.d_out[1])
    fail(PLAIT_ERR_UNIMPLEMENTED,
         "[" + u.op.scope + "] cross_entropy: its second output, the log-sum-exp, has no gradient");
  u.d_in[0] = u.g.apply1("cross_entropy_grad", {u.op.in[0], u.op.in[1], u.op.out[1], u.d_out[0]},
                         u.op.attrs);
}

double flops(const Graph& g, const Op& op) {
  return 5.0 * static_cast<double>(elements(g.shape(op.in[0])));
}

}  // namespace

extern const Rule kCrossEntropy, kCrossEntropyGrad;
const Rule kCrossEntropy{.name = "cross_entropy",
                         .infer = infer,
                         .gradient = gradient,
                         .flops = flops,
                         .write_sharded = write_sharded_cross_entropy};
const Rule kCrossEntropyGrad{.name = "cross_entropy_grad",
                             .infer = infer_grad,
                             .gradient = nullptr,
                             .flops = flops,
                             .write_sharded = write_sharded_cross_entropy_grad};

}  // namespace plait::program
