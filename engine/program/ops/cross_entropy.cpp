// Cross-entropy of logits (R.., C) against class indices (R..): a loss and a log-sum-exp per row,
// f32.
//
// Over a part of the classes (attributes first, total: its first class, classes of all parts) the
// loss is what the parts add up to, without the log-sum-exp, and the log-sum-exp is that of the
// part (Shoeybi et al. 2019, section 3).
#include "kit/ops/cross_entropy.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

void check_rows(const InferContext& c) {
  const plait_shape &x = c.in[0], &label = c.in[1];
  if (dims_of(label) != Dims(x.dims, x.dims + x.ndim - 1))
    fail_invalid(c.where() + " labels have shape " + text(label) + ", logits " + text(x) +
                 " need one label per row of " + std::to_string(x.dims[x.ndim - 1]) + " classes");
}

std::vector<plait_shape> infer(const InferContext& c) {
  c.arity(2, 2);
  kit::parse_cross_entropy(c.desc, false);
  check_rows(c);
  const plait_shape rows = make_shape(accumulation_dtype(c.in[0].dtype), dims_of(c.in[1]));
  return {rows, rows};
}

std::vector<plait_shape> infer_grad(const InferContext& c) {
  c.arity(4, 4);
  kit::parse_cross_entropy(c.desc, true);
  check_rows(c);
  return {c.in[0]};
}

void vjp(VjpContext& u) {
  u.d_in[0] = u.g.apply1("cross_entropy_grad", {u.op.in[0], u.op.in[1], u.op.out[1], u.d_out[0]},
                         u.op.attrs);
}

// Labels below 0 do not count.
std::optional<IndexUse> index_use(const Graph& g, const Op& op) {
  const plait_shape& x = g.shape(op.in[0]);
  return IndexUse{1, std::numeric_limits<int64_t>::min(), x.dims[x.ndim - 1], true};
}

// Smoothed labels are a mixture, whose cross-entropy is no likelihood of the label.
bool is_log_likelihood(const Op& op) { return op.attrs.real("label_smoothing", 0) == 0; }

int32_t last_dim(const ShardContext& u) {
  return static_cast<int32_t>(u.from.shape(u.op.in[0]).ndim) - 1;
}
int64_t classes(const ShardContext& u) { return u.from.shape(u.op.in[0]).dims[last_dim(u)]; }

// The log-sum-exp of all classes from the log-sum-exps of the parts, shifted by the greatest of
// them; the rest adds up.
bool write_sharded(ShardContext& u) {
  if (u.have[0].dim != last_dim(u)) return false;
  Graph& g = u.to;
  const ValueId label = u.input(1, kReplicated);
  const auto part =
      g.apply("cross_entropy", {u.input(0, u.have[0]), label}, attrs_of_rank(u, classes(u)));
  const ValueId greatest = u.all_reduce(g.apply1("copy", {part[1]}), PLAIT_COMM_MAX);
  const ValueId sum =
      u.all_reduce(g.apply1("exp", {binary(g, "sub", part[1], greatest)}), PLAIT_COMM_SUM);
  const ValueId lse = binary(g, "add", greatest, g.apply1("log", {sum}));
  const ValueId rest = u.all_reduce(part[0], PLAIT_COMM_SUM);
  // A label below 0 is ignored.
  const ValueId counts = binary(g, "le", g.constant(0), g.as_type(label, g.shape(lse).dtype));
  u.out = {g.apply1("select", {counts, binary(g, "add", lse, rest), g.constant(0)}), lse};
  u.out_placement = {kReplicated, kReplicated};
  return true;
}

bool write_sharded_grad(ShardContext& u) {
  if (u.have[0].dim != last_dim(u)) return false;
  u.out = u.to.apply("cross_entropy_grad",
                     {u.input(0, u.have[0]), u.input(1, kReplicated), u.input(2, kReplicated),
                      u.input(3, kReplicated)},
                     attrs_of_rank(u, classes(u)));
  u.out_placement = {u.have[0]};
  return true;
}

// Along the rows; all operands have them.
bool shard(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  if (!have[0].is_shard() || have[0].dim == static_cast<int32_t>(g.shape(op.in[0]).ndim) - 1)
    return false;
  std::fill(s.in.begin(), s.in.end(), have[0]);
  std::fill(s.out.begin(), s.out.end(), have[0]);
  return true;
}

std::vector<OpExample> examples() {
  std::vector<OpExample> all;
  for (double s : {0.0, 0.1})
    all.push_back({.inputs = {{4, 5}},
                   .attrs = {attr("label_smoothing", s)},
                   .indices = {{0, 4, -1, 2}},
                   .index_dims = {4}});
  return all;
}

}  // namespace

std::span<const OpDef> cross_entropy_ops() {
  static const OpDef kOps[] = {
      {.name = "cross_entropy",
       .help = "loss of logits against class indices, a number per row; a label below 0 gives 0",
       .signature = "x (R.., C), label (R..) -> loss (R..), log_sum_exp (R..)",
       .dtypes = "x floats, label i32, i64 or u8; results f32",
       .attrs = kit::kCrossEntropyAttrs,
       .rewrite_attrs = kit::kCrossEntropyPart,
       .infer = infer,
       .vjp = vjp,
       .differentiable_outputs = 1,
       .flops = flops_per_input<5>,
       .is_log_likelihood = is_log_likelihood,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 1,
       .index_use = index_use,
       .shard = shard,
       .write_sharded = write_sharded,
       .examples = examples},
      {.name = "cross_entropy_grad",
       .help = "gradient of cross_entropy with respect to the logits",
       .signature = "x (R.., C), label (R..), log_sum_exp (R..), d_loss (R..) -> dx (R.., C)",
       .dtypes = "x floats, label i32, i64 or u8",
       .attrs = kit::kCrossEntropyAttrs,
       .rewrite_attrs = kit::kCrossEntropyPart,
       .infer = infer_grad,
       .flops = flops_per_input<5>,
       .overwrites = 0,
       .shard = shard,
       .write_sharded = write_sharded_grad}};
  return kOps;
}

}  // namespace plait::program
