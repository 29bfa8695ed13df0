// The softmax family: row by row over the last axis.
#include "kit/ops/rows.hpp"

#include <algorithm>

#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

template <uint32_t inputs>
std::vector<plait_shape> infer(const InferContext& c) {
  c.arity(inputs, inputs);
  kit::parse_rows(c.desc, inputs);
  return {c.in[0]};
}

void vjp_softmax(VjpContext& u) {
  u.d_in[0] = u.g.apply1("softmax_grad", {u.op.out[0], u.d_out[0]});
}
void vjp_log_softmax(VjpContext& u) {
  u.d_in[0] = u.g.apply1("log_softmax_grad", {u.op.out[0], u.d_out[0]});
}

// Along every dimension but the last; all inputs are of one shape.
bool shard(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  const Placement p = first_shard(have);
  if (p.dim == static_cast<int32_t>(g.shape(op.in[0]).ndim) - 1) return false;
  std::fill(s.in.begin(), s.in.end(), p);
  std::fill(s.out.begin(), s.out.end(), p);
  return true;
}

std::vector<OpExample> examples() { return {{.inputs = {{3, 5}}}, {.inputs = {{2, 3, 5}}}}; }

OpDef one(const char* name, const char* help, void (*vjp)(VjpContext&)) {
  return {.name = name,
          .help = help,
          .signature = "x (R.., C) -> y (R.., C)",
          .dtypes = "floats",
          .infer = infer<1>,
          .vjp = vjp,
          .flops = flops_per_input<5>,
          .overwrites = 0,
          .shard = shard,
          .examples = examples};
}
OpDef grad(const char* name, const char* help) {
  return {.name = name,
          .help = help,
          .signature = "y (R.., C), dy (R.., C) -> dx (R.., C)",
          .dtypes = "floats, all of one type",
          .infer = infer<2>,
          .flops = flops_per_input<5>,
          .shard = shard};
}

}  // namespace

std::span<const OpDef> rows_ops() {
  static const OpDef kOps[] = {
      one("softmax", "exp(x) / sum(exp(x)) of each row", vjp_softmax),
      one("log_softmax", "x - log(sum(exp(x))) of each row", vjp_log_softmax),
      grad("softmax_grad", "gradient of softmax from its result"),
      grad("log_softmax_grad", "gradient of log_softmax from its result")};
  return kOps;
}

}  // namespace plait::program
