// Counter-based random numbers. Input: the counter, i64 (2): step, and index of the first sample of
// this micro-batch within the global batch.
#include "kit/ops/random.hpp"

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer(const InferContext& c) {
  c.arity(1, 1);
  if (c.in[0].dtype != PLAIT_I64 || elements(c.in[0]) != 2)
    fail_invalid(c.where() + " counter must be i64 (2), found " + text(c.in[0]));
  return {make_shape(c.float_type, kit::parse_random(c.desc).out)};
}

std::vector<plait_shape> infer_like(const InferContext& c) {
  c.arity(1, 1);
  return {make_shape(c.float_type, dims_of(c.in[0]))};
}

// A range of any axis.
bool can_make_part(const PartQuery& q) { return !q.padded; }
ValueId make_part(ShardContext& u, int32_t dim, const plait_shape& part) {
  Attrs attrs = u.op.attrs;
  attrs.set(attr("shape", dims_of(part)));
  attrs.set(attr("axis", static_cast<int64_t>(dim)));
  attrs.set(attr("first", u.rank * part.dims[dim]));
  attrs.set(attr("total", u.from.shape(u.op.out[0]).dims[dim]));
  return u.to.apply1("random", {u.input(0, kReplicated)}, std::move(attrs));
}

}  // namespace

std::span<const OpDef> random_ops() {
  static const OpDef kOps[] = {
      {.name = "random",
       .help = "numbers that depend on (seed, stream, step, sample, element) alone",
       .signature = "counter (2) -> y (shape)",
       .dtypes = "counter i64, y f32",
       .attrs = kit::kRandomAttrs,
       .rewrite_attrs = kit::kRandomPart,
       .audience = Audience::kEngine,
       .infer = infer,
       .flops = no_flops,
       .precision = PrecisionClass::kFollow,
       .can_make_part = can_make_part,
       .make_part = make_part},
      {.name = "random_uniform",
       .help = "numbers in [0, 1), new in each step; layers only",
       .signature = "like (..) -> y (dims of like)",
       .dtypes = "like of any type, y f32",
       .infer = infer_like,
       .draws_random = true,
       .flops = no_flops}};
  return kOps;
}

}  // namespace plait::program
