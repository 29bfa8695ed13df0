// The k greatest numbers of a row and where they are, and their gradient.
#include "kit/ops/top_k.hpp"

#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer(const InferContext& c) {
  const Dims out = kit::parse_top_k(c.desc).out;
  return {c.like_first(out), make_shape(PLAIT_I32, out)};
}
// What was chosen gets the gradient, what was not gets none.
void vjp(VjpContext& u) {
  const plait_shape& x = u.g.shape(u.op.in[0]);
  u.d_in[0] =
      u.g.apply1("top_k_grad", {u.d_out[0], u.op.out[1]}, {attr("extent", x.dims[x.ndim - 1])});
}

std::vector<plait_shape> infer_grad(const InferContext& c) {
  return {c.like_first(kit::parse_top_k_grad(c.desc).out)};
}

// Rows stay where they are.
bool shard(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  const Placement rows = first_shard(have);
  if (rows.dim + 1 == static_cast<int32_t>(g.shape(op.in[0]).ndim)) return false;
  for (Placement& p : s.in) p = rows;
  for (Placement& p : s.out) p = rows;
  return true;
}
bool shard_grad(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t ranks,
                Sharding& s) {
  s.keeps_zeros = true;
  return shard(g, op, have, ranks, s);
}

std::vector<OpExample> examples() {
  return {{.inputs = {{3, 5}}, .attrs = {attr("k", int64_t{2})}},
          {.inputs = {{2, 2, 3}}, .attrs = {attr("k", int64_t{3})}}};
}

}  // namespace

std::span<const OpDef> top_k_ops() {
  static const OpDef kOps[] = {
      {.name = "top_k",
       .help = "the k greatest numbers of each row, in descending order, and where they are; of "
               "equals the first, what is not a number before all",
       .signature = "x (.., E) -> values (.., k), index (.., k)",
       .dtypes = "x floats, values as x, index i32",
       .attrs = kit::kTopKAttrs,
       .infer = infer,
       .vjp = vjp,
       .differentiable_outputs = 1,
       .precision = PrecisionClass::kFollow,
       .shard = shard,
       .examples = examples},
      {.name = "top_k_grad",
       .help = "numbers put back to where the index says they come from, 0 elsewhere",
       .signature = "dy (.., k), index (.., k) -> dx (.., extent)",
       .dtypes = "dy floats, index i32, i64 or u8",
       .attrs = kit::kTopKGradAttrs,
       .infer = infer_grad,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 1,
       .shard = shard_grad}};
  return kOps;
}

}  // namespace plait::program
