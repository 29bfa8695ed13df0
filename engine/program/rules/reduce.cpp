// Reductions over chosen axes, and the softmax family over the last axis.
#include "engine/base/error.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_reduce(const Application& a) {
  a.arity(1, 1);
  const plait_shape& x = a.in[0];
  const std::string kind = a.attrs.text("kind", "sum");
  if (kind != "sum" && kind != "max" && kind != "sum_squares")
    fail_invalid(a.where() + " kind '" + kind + "' is none of sum, max, sum_squares");
  if (!is_float(x.dtype)) fail_invalid(a.where() + " needs floats, found " + text(x));
  const auto& axes = a.attrs.ints("axes");
  Dims dims;
  size_t next = 0;
  for (int64_t i = 0; i < static_cast<int64_t>(x.ndim); ++i) {
    const bool reduced = next < axes.size() && axes[next] == i;
    if (reduced) ++next;
    if (!reduced)
      dims.push_back(x.dims[i]);
    else if (a.attrs.integer("keep", 1))
      dims.push_back(1);
  }
  if (next != axes.size())
    fail_invalid(a.where() + " axes must be sorted, different and in range for " + text(x));
  return {make_shape(x.dtype, dims)};
}

void gradient_reduce(Use& u) {
  Graph& g = u.g;
  const ValueId x = u.op.in[0];
  const std::string kind = u.op.attrs.text("kind", "sum");
  Dims kept = dims_of(g.shape(x));
  for (int64_t axis : u.op.attrs.ints("axes")) kept[static_cast<size_t>(axis)] = 1;
  const ValueId d = reshaped(g, u.d_out[0], kept);
  if (kind == "sum_squares") {
    u.d_in[0] = binary(g, "mul", scaled(g, x, 2), d);
  } else if (kind == "max") {
    // Ties share the gradient evenly, which is one of the valid subgradients and does not depend on order.
    const ValueId hit = binary(g, "eq", x, reshaped(g, u.op.out[0], kept));
    const ValueId count = g.apply1("reduce", {hit},
                                   {attr("kind", std::string("sum")),
                                    attr("axes", u.op.attrs.ints("axes")), attr("keep", true)});
    u.d_in[0] = binary(g, "mul", hit, binary(g, "div", d, count));
  } else {
    u.d_in[0] = binary(g, "add", filled(g, g.shape(x), 0), d);
  }
}

std::vector<plait_shape> infer_rows(const Application& a) {
  const size_t n = a.op == "softmax" || a.op == "log_softmax" ? 1 : 2;
  a.arity(n, n);
  if (a.in[0].ndim < 1 || !is_float(a.in[0].dtype))
    fail_invalid(a.where() + " needs rows of floats, found " + text(a.in[0]));
  if (n == 2 && !same(a.in[0], a.in[1]))
    fail_invalid(a.where() + " shapes differ: " + text(a.in[0]) + " and " + text(a.in[1]));
  return {a.in[0]};
}

void gradient_softmax(Use& u) { u.d_in[0] = u.g.apply1("softmax_grad", {u.op.out[0], u.d_out[0]}); }
void gradient_log_softmax(Use& u) {
  u.d_in[0] = u.g.apply1("log_softmax_grad", {u.op.out[0], u.d_out[0]});
}

double row_flops(const Graph& g, const Op& op) {
  return 5.0 * static_cast<double>(elements(g.shape(op.in[0])));
}
double in_flops(const Graph& g, const Op& op) {
  return static_cast<double>(elements(g.shape(op.in[0])));
}

}  // namespace

extern const Rule kReduce, kSoftmax, kLogSoftmax, kSoftmaxGrad, kLogSoftmaxGrad;
const Rule kReduce{"reduce", infer_reduce,        gradient_reduce, in_flops,
                   false,    CollectiveOp::kNone, shard_reduce};
const Rule kSoftmax{"softmax", infer_rows,          gradient_softmax, row_flops,
                    false,     CollectiveOp::kNone, shard_rows};
const Rule kLogSoftmax{"log_softmax",       infer_rows, gradient_log_softmax, row_flops, false,
                       CollectiveOp::kNone, shard_rows};
const Rule kSoftmaxGrad{"softmax_grad", infer_rows,          nullptr,   row_flops,
                        false,          CollectiveOp::kNone, shard_rows};
const Rule kLogSoftmaxGrad{"log_softmax_grad",  infer_rows, nullptr, row_flops, false,
                           CollectiveOp::kNone, shard_rows};

}  // namespace plait::program
