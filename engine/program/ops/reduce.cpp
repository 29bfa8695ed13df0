// Reductions over chosen axes.
#include "kit/ops/reduce.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/per_sample.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

bool is(const Op& op, std::string_view kind) { return op.attrs.text("kind", "sum") == kind; }

std::vector<plait_shape> infer(const InferContext& c) {
  c.arity(1, 1);
  if (!is_float(c.in[0].dtype)) fail_invalid(c.where() + " needs floats, found " + text(c.in[0]));
  return {make_shape(accumulation_dtype(c.in[0].dtype), kit::parse_reduce(c.desc).out)};
}

void vjp(VjpContext& u) {
  Graph& g = u.g;
  const ValueId x = u.op.in[0];
  Dims kept = dims_of(g.shape(x));
  for (int64_t axis : u.op.attrs.ints("axes")) kept[static_cast<size_t>(axis)] = 1;
  const ValueId d = reshaped(g, u.d_out[0], kept);
  if (is(u.op, "sum_squares")) {
    u.d_in[0] = binary(g, "mul", scaled(g, x, 2), d);
  } else if (is(u.op, "max")) {
    // Ties share the gradient evenly, which is one of the valid subgradients and does not depend on
    // order.
    const ValueId hit = binary(g, "eq", x, reshaped(g, u.op.out[0], kept));
    const ValueId count = g.apply1("reduce", {hit},
                                   {attr("kind", std::string("sum")),
                                    attr("axes", u.op.attrs.ints("axes")), attr("keep", true)});
    u.d_in[0] = binary(g, "mul", hit, binary(g, "div", d, count));
  } else {
    u.d_in[0] = binary(g, "add", filled(g, g.shape(x), 0), d);
  }
}

bool sums_squares(const Graph& g, const Op& op) {
  return is(op, "sum_squares") && elements(g.shape(op.out[0])) == 1;
}

bool shard(const Graph&, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  const auto& axes = op.attrs.ints("axes");
  s.keeps_zeros = !is(op, "max");
  s.in[0] = have[0];
  const int32_t dim = have[0].dim;
  if (std::find(axes.begin(), axes.end(), dim) != axes.end()) {
    s.out[0] = partial(is(op, "max") ? PLAIT_COMM_MAX : PLAIT_COMM_SUM);
    return true;
  }
  const auto before = std::count_if(axes.begin(), axes.end(), [&](int64_t a) { return a < dim; });
  s.out[0] = shard_along(dim - (op.attrs.integer("keep", 1) ? 0 : static_cast<int32_t>(before)));
  return true;
}

std::vector<OpExample> examples() {
  std::vector<OpExample> all;
  for (const char* kind : {"sum", "sum_squares", "max"})
    for (bool keep : {true, false})
      for (const Dims& axes : {Dims{1}, Dims{0, 2}})
        all.push_back(
            {.inputs = {{3, 4, 2}},
             .attrs = {attr("kind", std::string(kind)), attr("axes", axes), attr("keep", keep)}});
  return all;
}

}  // namespace

std::span<const OpDef> reduce_ops() {
  static const OpDef kOps[] = {{.name = "reduce",
                                .help = "sum, greatest or sum of squares over chosen axes",
                                .signature = "x (..) -> y (.. without the axes, or with 1 there)",
                                .dtypes = "floats; y as x, of 16 bits f32",
                                .attrs = kit::kReduceAttrs,
                                .infer = infer,
                                .vjp = vjp,
                                .flops = flops_per_input<1>,
                                .precision = PrecisionClass::kFollow,
                                .sums_squares = sums_squares,
                                .shard = shard,
                                .per_sample = along_axes_per_sample,
                                .examples = examples}};
  return kOps;
}

}  // namespace plait::program
