// Rotary position embeddings (Su et al. 2021): tables of cos and sin, and the rotation by them.
#include "kit/ops/rope.hpp"

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/with_cache.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_table(const InferContext& c) {
  const plait_shape table = make_shape(PLAIT_F32, kit::parse_rope_table(c.desc).out);
  return {table, table};
}
std::vector<plait_shape> infer(const InferContext& c) {
  kit::parse_rope(c.desc);
  return {c.in[0]};
}

// The gradient turns back. The tables are constants; a gradient of theirs is refused, not dropped.
void vjp(VjpContext& u) {
  if (u.wanted[1] || u.wanted[2])
    fail(PLAIT_ERR_UNIMPLEMENTED,
         "[" + u.op.scope + "] op 'rope' has no gradient for cos and sin, but " +
             (u.wanted[1] ? "cos" : "sin") +
             " depends on parameters; take both from rope_table, or write the rotation with "
             "element-wise ops");
  Attrs attrs = u.op.attrs;
  attrs.set(attr("inverse", u.op.attrs.integer("inverse", 0) == 0));
  u.d_in[0] = u.g.apply1("rope", {u.d_out[0], u.op.in[1], u.op.in[2]}, std::move(attrs));
}

double flops(const Graph& g, const Op& op) {
  const plait_shape &x = g.shape(op.in[0]), &cos = g.shape(op.in[1]);
  return 6.0 * static_cast<double>(x.dims[0] * x.dims[1] * x.dims[2]) *
         static_cast<double>(cos.dims[cos.ndim - 1]);
}

// Along the positions; each has a row of its own.
bool shard_table(const Graph&, const Op& op, const std::vector<Placement>& have, int64_t,
                 Sharding& s) {
  if (op.in.empty()) return false;
  s.in[0] = s.out[0] = s.out[1] = have[0];
  if (op.in.size() > 1 && have[0].is_shard() && have[0].dim == 0) s.in[1] = have[0];
  return true;
}

// With longrope a sequence has the angles of its own length, which may exceed `original` later, or
// never. A model without divisors for short sequences has those for long ones alone.
void write_table_at(TableContext& u) {
  if (!u.op.in.empty()) return;
  Attrs attrs = u.op.attrs;
  const int64_t original = attrs.integer("original", 0), longest = attrs.integer("length", 0);
  if (attrs.text("scaling", "none") == "longrope" && longest > original &&
      !attrs.text("factors", "").empty()) {
    attrs.set(attr("length", int64_t{0}));
    u.out = u.to.apply("rope_table", {u.positions, u.lengths(original)}, std::move(attrs));
  } else {
    u.out = u.to.apply("rope_table", {u.positions}, std::move(attrs));
  }
}

// Along samples, tokens or heads; the tables have the first two, or the tokens alone.
bool shard(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  constexpr int32_t kHeads = 2;
  if (!have[0].is_shard() || have[0].dim > kHeads) return false;
  const int32_t missing = g.shape(op.in[1]).ndim == 2 ? 1 : 0;
  const int32_t row = have[0].dim == kHeads ? -1 : have[0].dim - missing;
  s.in[0] = s.out[0] = have[0];
  s.in[1] = s.in[2] = shard_along(row);
  s.keeps_zeros = true;
  return true;
}

std::vector<OpExample> examples() {
  std::vector<OpExample> all;
  for (const char* pairs : {"half", "adjacent"})
    for (const bool inverse : {false, true})
      all.push_back({.inputs = {{2, 3, 2, 5}},
                     .attrs = {attr("pairs", std::string(pairs)), attr("inverse", inverse)},
                     .tables = {{3, 2}, {3, 2}}});
  return all;
}

}  // namespace

std::span<const OpDef> rope_ops() {
  static const OpDef kOps[] = {
      {.name = "rope_table",
       .help = "cos and sin of the angles by which rope turns the pairs at each position",
       .signature = "[positions (..) [, lengths (B)]] -> cos (.., r/2), sin (.., r/2)",
       .dtypes = "positions and lengths i32, i64 or u8; results f32",
       .attrs = kit::kRopeTableAttrs,
       .infer = infer_table,
       .precision = PrecisionClass::kFollow,
       .shard = shard_table,
       .write_at = write_table_at},
      {.name = "rope",
       .help = "turns pairs of channels by the angles of their position; channels behind r stay",
       .signature = "x (B, T, n, d), cos (B, T, r/2) or (T, r/2), sin as cos -> y (B, T, n, d)",
       .dtypes = "x floats, cos and sin f32",
       .attrs = kit::kRopeAttrs,
       .infer = infer,
       .vjp = vjp,
       .flops = flops,
       .cheap_to_recompute = true,
       .precision = PrecisionClass::kLow,
       .typed_operands = 1,
       .shard = shard,
       .examples = examples}};
  return kOps;
}

}  // namespace plait::program
