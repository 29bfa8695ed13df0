// Rows sorted into groups, products of each group with a matrix of its own, and the sums of the
// rows back to their tokens. N tokens, M = N·k rows, E groups, C channels, I inputs, O outputs.
#include "kit/ops/grouped.hpp"

#include <plait/comm.h>

#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_group(const InferContext& c) {
  const kit::GroupRows g = kit::parse_group_rows(c.desc);
  return {c.like_first({g.tokens * g.each, g.width}), make_shape(PLAIT_I32, g.place),
          make_shape(PLAIT_I32, {g.groups + 1})};
}
void vjp_group(VjpContext& u) { u.d_in[0] = u.g.apply1("ungroup_rows", {u.d_out[0], u.op.out[1]}); }

std::vector<plait_shape> infer_ungroup(const InferContext& c) {
  const Dims out = kit::parse_ungroup_rows(c.desc).out;
  return {make_shape(result_type(c, c.in[0].dtype), out)};
}
void vjp_ungroup(VjpContext& u) {
  const ValueId d = u.d_out[0];
  if (u.op.in.size() == 2) {
    u.d_in[0] = u.g.apply1("ungroup_rows_grad", {d, u.op.in[1]});
    return;
  }
  const auto made = u.g.apply("ungroup_rows_grad", {d, u.op.in[0], u.op.in[1], u.op.in[2]});
  u.d_in[0] = made[0];
  u.d_in[1] = made[1];
}

std::vector<plait_shape> infer_ungroup_grad(const InferContext& c) {
  const kit::UngroupRows u = kit::parse_ungroup_rows_grad(c.desc);
  if (!u.weighted) return {c.like_first(u.out)};
  return {make_shape(c.in[1].dtype, u.out), c.in[2]};
}

bool is_transposed(const Op& op) { return op.attrs.integer("transpose_b", 0) != 0; }

std::vector<plait_shape> infer_product(const InferContext& c) {
  return {make_shape(result_type(c, c.in[0].dtype), kit::parse_grouped_matmul(c.desc).out)};
}
void vjp_product(VjpContext& u) {
  const ValueId x = u.op.in[0], offsets = u.op.in[2], d = u.d_out[0];
  const bool transposed = is_transposed(u.op);
  if (u.wanted[0])
    u.d_in[0] =
        u.g.apply1("grouped_matmul", {d, u.op.in[1], offsets}, {attr("transpose_b", !transposed)});
  if (u.wanted[1])
    u.d_in[1] = transposed ? u.g.apply1("grouped_matmul_grad", {d, x, offsets})
                           : u.g.apply1("grouped_matmul_grad", {x, d, offsets});
}

std::vector<plait_shape> infer_product_grad(const InferContext& c) {
  return {make_shape(result_type(c, c.in[0].dtype), kit::parse_grouped_matmul_grad(c.desc).out)};
}

// The share of all matrices that this rank has: of so many rows does it compute the product, if the
// rows are spread evenly. Each row meets one matrix, however many there are.
double own_share(const Graph& g, ValueId matrices, ValueId offsets) {
  return static_cast<double>(g.shape(matrices).dims[0]) /
         static_cast<double>(g.shape(offsets).dims[0] - 1);
}
double flops_product(const Graph& g, const Op& op) {
  return own_share(g, op.in[1], op.in[2]) * 2.0 * static_cast<double>(g.shape(op.in[0]).dims[1]) *
         static_cast<double>(elements(g.shape(op.out[0])));
}
double flops_product_grad(const Graph& g, const Op& op) {
  return own_share(g, op.out[0], op.in[2]) * 2.0 * static_cast<double>(g.shape(op.in[1]).dims[1]) *
         static_cast<double>(elements(g.shape(op.in[0])));
}

std::optional<WeightUse> weight_use(const Graph&, const Op& op) {
  return WeightUse{.groups = 2, .out_in = is_transposed(op)};
}

// The attributes of an op over the matrices of this rank, `groups` of them.
Attrs attrs_of_groups(const ShardContext& u, int64_t groups) {
  Attrs attrs = u.op.attrs;
  attrs.set(attr("first", attrs.integer("first", 0) + u.rank * groups));
  return attrs;
}

// The rows of an input: of the same groups as they are here, else of all.
ValueId rows_of(ShardContext& u, size_t input, const GroupShare& own) {
  return u.have[input].groups == own ? u.rows(input, false) : u.input(input, kReplicated);
}

// Where each rank has the matrices of some groups, it makes the rows of these, and zeros of others.
bool write_product(ShardContext& u) {
  if (u.have[1] != shard_along(0)) return false;
  const ValueId b = u.input(1, u.have[1]);
  const int64_t groups = u.to.shape(b).dims[0];
  Attrs attrs = attrs_of_groups(u, groups);
  const GroupShare own{u.op.in[2], attrs.integer("first", 0), groups};
  u.out = {u.to.apply1("grouped_matmul", {rows_of(u, 0, own), b, u.input(2, kReplicated)},
                       std::move(attrs))};
  u.out_placement = {rows_of_groups(partial(PLAIT_COMM_SUM), own)};
  return true;
}
// By the outputs of the matrices, or by their inputs, as other products.
bool shard_product_of_groups(const Graph&, const Op& op, const std::vector<Placement>& have,
                             int64_t, Sharding& s) {
  const int32_t inner = is_transposed(op) ? 2 : 1;
  s.keeps_zeros = true;
  if (have[1].is_shard() && have[1].dim != 0) {
    s.in[1] = have[1];
    s.in[0] = have[1].dim == inner ? shard_along(1) : kReplicated;
    s.out[0] = have[1].dim == inner ? partial(PLAIT_COMM_SUM) : shard_along(1);
    return true;
  }
  if (have[0] != shard_along(1) || have[1].is_shard()) return false;
  s.in[0] = shard_along(1);
  s.in[1] = shard_along(inner);
  s.out[0] = partial(PLAIT_COMM_SUM);
  return true;
}

bool shard_product_grad(const Graph&, const Op&, const std::vector<Placement>& have, int64_t,
                        Sharding& s) {
  s.keeps_zeros = true;
  for (size_t i = 0; i < 2; ++i) {
    if (have[i] != shard_along(1)) continue;
    s.in[i] = have[i];
    s.out[0] = shard_along(1 + static_cast<int32_t>(i));
    return true;
  }
  return false;
}
// Of rows that are here for some groups, the matrices of these.
bool write_product_grad(ShardContext& u) {
  for (size_t i = 0; i < 2; ++i) {
    const GroupShare own = u.have[i].groups;
    if (own.offsets == 0 || own.offsets != u.op.in[2]) continue;
    Attrs attrs = u.op.attrs;
    attrs.set(attr("first", own.first));
    attrs.set(attr("groups", own.count));
    u.out = {u.to.apply1("grouped_matmul_grad",
                         {rows_of(u, 0, own), rows_of(u, 1, own), u.input(2, kReplicated)},
                         std::move(attrs))};
    u.out_placement = {shard_along(0)};
    return true;
  }
  return false;
}
// The matrices of some groups are made alone.
bool can_make_groups(const PartQuery& q) { return q.dim == 0; }
ValueId make_groups(ShardContext& u, int32_t, const plait_shape& part) {
  Attrs attrs = attrs_of_groups(u, part.dims[0]);
  attrs.set(attr("groups", part.dims[0]));
  return u.to.apply1("grouped_matmul_grad",
                     {u.input(0, kReplicated), u.input(1, kReplicated), u.input(2, kReplicated)},
                     std::move(attrs));
}

// Each rank adds up the rows of its groups.
bool write_ungroup(ShardContext& u) {
  if (!u.have[0].is_in_groups()) return false;
  std::vector<ValueId> in{u.rows(0, true)};
  for (size_t i = 1; i < u.op.in.size(); ++i) in.push_back(u.input(i, kReplicated));
  u.out = {u.to.apply1("ungroup_rows", std::move(in), u.op.attrs)};
  u.out_placement = {partial(PLAIT_COMM_SUM)};
  return true;
}
// Gradients of weights come from rows, gradients of rows from none.
bool write_ungroup_grad(ShardContext& u) {
  if (u.op.in.size() != 4 || !u.have[1].is_in_groups()) return false;
  u.out = u.to.apply(
      "ungroup_rows_grad",
      {u.input(0, kReplicated), u.rows(1, true), u.input(2, kReplicated), u.input(3, kReplicated)},
      u.op.attrs);
  u.out_placement = {kReplicated, partial(PLAIT_COMM_SUM)};
  return true;
}

// Channels stay where they are.
bool shard_ungroup(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t,
                   Sharding& s) {
  if (have[0] != shard_along(1)) return false;
  s.keeps_zeros = true;
  s.in[0] = have[0];
  s.out[0] = shard_along(static_cast<int32_t>(g.shape(op.out[0]).ndim) - 1);
  return true;
}

std::vector<OpExample> group_examples() {
  return {{.inputs = {{4, 3}},
           .attrs = {attr("groups", int64_t{3})},
           .indices = {{2, 0, 0, 2, 1, 0, 2, 1}},
           .index_dims = {4, 2}}};
}
std::vector<OpExample> ungroup_examples() {
  const std::vector<std::vector<double>> place = {{3, 0, 5, 1, 2, 4}};
  return {{.inputs = {{6, 2}, {3, 2}}, .indices = place, .index_dims = {3, 2}},
          {.inputs = {{6, 2}}, .indices = place, .index_dims = {3, 2}}};
}
std::vector<OpExample> product_examples() {
  const std::vector<std::vector<double>> offsets = {{0, 2, 2, 5}};
  return {{.inputs = {{5, 3}, {3, 3, 2}}, .indices = offsets, .index_dims = {4}},
          {.inputs = {{5, 3}, {3, 2, 3}},
           .attrs = {attr("transpose_b", true)},
           .indices = offsets,
           .index_dims = {4}}};
}

}  // namespace

std::span<const OpDef> grouped_ops() {
  static const OpDef kOps[] = {
      {.name = "group_rows",
       .help = "the rows of tokens, sorted by the groups that each token is in, and in a group by "
               "the order of the tokens; the place of each row, and where groups begin",
       .signature = "x (R.., C), index (R.., k) -> rows (M, C), place (R.., k), offsets (groups+1)",
       .dtypes = "x floats, rows as x, index i32, i64 or u8, place and offsets i32",
       .attrs = kit::kGroupRowsAttrs,
       .infer = infer_group,
       .vjp = vjp_group,
       .differentiable_outputs = 1,
       .precision = PrecisionClass::kLow,
       .typed_operands = 1,
       .grouping = Grouping::kSorts,
       .examples = group_examples},
      {.name = "ungroup_rows",
       .help = "sums of the rows that belong to a token, each multiplied by a weight",
       .signature = "rows (M, C) [, weights (R.., k)], place (R.., k) -> y (R.., C)",
       .dtypes = "rows and weights floats, place i32, i64 or u8; y as rows",
       .rewrite_attrs = kit::kUngroupRewrites,
       .infer = infer_ungroup,
       .vjp = vjp_ungroup,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 1,
       .writes_any_float = true,
       .shard = shard_ungroup,
       .write_sharded = write_ungroup,
       .grouping = Grouping::kUndoes,
       .examples = ungroup_examples},
      {.name = "ungroup_rows_grad",
       .help = "gradients of the rows and of the weights",
       .signature = "dy (R.., C) [, rows (M, C), weights (R.., k)], place (R.., k) -> drows (M, C) "
                    "[, dweights (R.., k)]",
       .dtypes = "dy, rows and weights floats, place i32, i64 or u8; gradients as what they are of",
       .infer = infer_ungroup_grad,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 0,
       .write_sharded = write_ungroup_grad,
       .grouping = Grouping::kUndoes},
      {.name = "grouped_matmul",
       .help = "the rows of each group times the matrix of the group; 0 of rows in no group",
       .signature = "x (M, I), b (E, I, O), offsets (E+1) -> y (M, O)",
       .dtypes = "x and b floats of one type, offsets i32, i64 or u8",
       .attrs = kit::kGroupedMatmulAttrs,
       .rewrite_attrs = kit::kGroupedMatmulPart,
       .infer = infer_product,
       .vjp = vjp_product,
       .flops = flops_product,
       .is_product = true,
       .precision = PrecisionClass::kLow,
       .typed_operands = 2,
       .writes_any_float = true,
       .weight_use = weight_use,
       .shard = shard_product_of_groups,
       .write_sharded = write_product,
       .grouping = Grouping::kKeeps,
       .examples = product_examples},
      {.name = "grouped_matmul_grad",
       .help = "gradient of the matrices: a transposed times b, of the rows of each group",
       .signature = "a (M, I), b (M, O), offsets (E+1) -> y (E, I, O)",
       .dtypes = "a and b floats of one type, offsets i32, i64 or u8",
       .rewrite_attrs = kit::kGroupedGradPart,
       .infer = infer_product_grad,
       .flops = flops_product_grad,
       .is_product = true,
       .precision = PrecisionClass::kLow,
       .typed_operands = 2,
       .writes_any_float = true,
       .shard = shard_product_grad,
       .write_sharded = write_product_grad,
       .can_make_part = can_make_groups,
       .make_part = make_groups,
       .grouping = Grouping::kReads}};
  return kOps;
}

}  // namespace plait::program
