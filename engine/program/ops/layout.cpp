// Ops that move elements without changing them: reshape (a view), transpose, slice, pad, concat.
#include "kit/ops/layout.hpp"

#include <algorithm>

#include "engine/program/op_def.hpp"
#include "engine/program/per_sample.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_reshape(const InferContext& c) {
  return {c.like_first(kit::parse_reshape(c.desc))};
}
void vjp_reshape(VjpContext& u) {
  u.d_in[0] = reshaped(u.g, u.d_out[0], dims_of(u.g.shape(u.op.in[0])));
}

std::vector<plait_shape> infer_transpose(const InferContext& c) {
  return {c.like_first(kit::parse_transpose(c.desc).out)};
}
void vjp_transpose(VjpContext& u) {
  const auto& perm = u.op.attrs.ints("perm");
  std::vector<int64_t> back(perm.size());
  for (size_t i = 0; i < perm.size(); ++i)
    back[static_cast<size_t>(perm[i])] = static_cast<int64_t>(i);
  u.d_in[0] = u.g.apply1("transpose", {u.d_out[0]}, {attr("perm", back)});
}

template <kit::Blocks (*parse)(const plait_op_desc&)>
std::vector<plait_shape> infer_blocks(const InferContext& c) {
  return {c.like_first(parse(c.desc).out)};
}

void vjp_slice(VjpContext& u) {
  const int64_t axis = u.op.attrs.integer("axis", 0);
  u.d_in[0] =
      u.g.apply1("pad", {u.d_out[0]},
                 {attr("axis", axis), attr("before", u.op.attrs.integer("start", 0)),
                  attr("after", u.g.shape(u.op.in[0]).dims[axis] - u.op.attrs.integer("stop", 0))});
}

void vjp_pad(VjpContext& u) {
  const int64_t axis = u.op.attrs.integer("axis", 0), before = u.op.attrs.integer("before", 0);
  u.d_in[0] = u.g.apply1("slice", {u.d_out[0]},
                         {attr("axis", axis), attr("start", before),
                          attr("stop", before + u.g.shape(u.op.in[0]).dims[axis])});
}

void vjp_concat(VjpContext& u) {
  const int64_t axis = u.op.attrs.integer("axis", 0);
  int64_t start = 0;
  for (size_t i = 0; i < u.op.in.size(); ++i) {
    const int64_t n = u.g.shape(u.op.in[i]).dims[axis];
    if (u.wanted[i])
      u.d_in[i] = u.g.apply1("slice", {u.d_out[0]},
                             {attr("axis", axis), attr("start", start), attr("stop", start + n)});
    start += n;
  }
}

// The dimension of `to` that is sharded where dimension `dim` of `from` is: it begins at the same
// place, and is the same or both can be cut evenly. -1: none.
int32_t matching_dim(const plait_shape& from, int32_t dim, const plait_shape& to, int64_t ranks) {
  int64_t before = 1, outer = 1;
  for (int32_t d = 0; d < dim; ++d) before *= from.dims[d];
  for (uint32_t d = 0; d < to.ndim; outer *= to.dims[d++]) {
    const bool even = to.dims[d] % ranks == 0 && from.dims[dim] % ranks == 0;
    if (outer == before && (to.dims[d] == from.dims[dim] || even)) return static_cast<int32_t>(d);
  }
  return -1;
}

bool shard_reshape(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t ranks,
                   Sharding& s) {
  s.keeps_zeros = true;
  const plait_shape &in = g.shape(op.in[0]), &out = g.shape(op.out[0]);
  const int32_t dim = matching_dim(in, have[0].dim, out, ranks);
  if (dim < 0) return false;
  s.in[0] = have[0];
  s.out[0] = shard_along(dim);
  return true;
}
bool can_make_reshaped(const PartQuery& q) {
  const int32_t dim =
      matching_dim(q.from.shape(q.op.out[0]), q.dim, q.from.shape(q.op.in[0]), q.ranks);
  return dim >= 0 && !q.padded && q.can_make(0, dim);
}
ValueId make_reshaped(ShardContext& u, int32_t dim, const plait_shape& part) {
  const int32_t own =
      matching_dim(u.from.shape(u.op.out[0]), dim, u.from.shape(u.op.in[0]), u.ranks);
  return reshaped(u.to, u.input(0, shard_along(own)), dims_of(part));
}
Attrs shape_of_part(const Op&, const plait_shape& part) { return {attr("shape", dims_of(part))}; }

bool shard_transpose(const Graph&, const Op& op, const std::vector<Placement>& have, int64_t,
                     Sharding& s) {
  const auto& perm = op.attrs.ints("perm");
  s.keeps_zeros = true;
  s.in[0] = have[0];
  s.out[0] = shard_along(
      static_cast<int32_t>(std::find(perm.begin(), perm.end(), have[0].dim) - perm.begin()));
  return true;
}

// slice, pad, concat: along every dimension but their own.
bool shard_off_axis(const Graph&, const Op& op, const std::vector<Placement>& have, int64_t,
                    Sharding& s) {
  const Placement p = first_shard(have);
  if (p.dim == op.attrs.integer("axis", 0)) return false;
  std::fill(s.in.begin(), s.in.end(), p);
  s.out[0] = p;
  return true;
}

PerSampleResult reshape_per_sample(PerSampleContext& c) {
  Dims dims = c.attrs.ints("shape");
  dims.insert(dims.begin(), c.stacked);
  return {reshaped(c.g, c.in[0].value, dims), true};
}
// What all samples share is repeated for each value of the stack.
PerSampleResult concat_per_sample(PerSampleContext& c) {
  if (c.has_rows()) return {.refused = "it would put them beside rows of samples"};
  const int64_t axis = c.attrs.integer("axis", 0);
  if (axis < 0 || axis >= static_cast<int64_t>(c.ndim(0)))
    return {.refused = "a parameter has no axis " + std::to_string(axis)};
  std::vector<ValueId> stacks;
  for (size_t i = 0; i < c.in.size(); ++i) {
    ValueId v = c.in[i].value;
    if (c.is(i, PerSampleContext::Kind::kShared)) {
      Dims dims = c.dims(i);
      dims.insert(dims.begin(), 1);
      v = reshaped(c.g, v, dims);
      const auto n = static_cast<size_t>(c.stacked);
      if (n > 1) v = c.g.apply1("concat", std::vector<ValueId>(n, v));
    }
    stacks.push_back(v);
  }
  return {c.g.apply1("concat", std::move(stacks), {attr("axis", axis + 1)}), true};
}

std::vector<OpExample> reshape_examples() {
  return {{.inputs = {{3, 4}}, .attrs = {attr("shape", Dims{2, 6})}}};
}
std::vector<OpExample> transpose_examples() {
  return {{.inputs = {{2, 3, 4}}, .attrs = {attr("perm", Dims{2, 0, 1})}}};
}
std::vector<OpExample> slice_examples() {
  return {
      {.inputs = {{3, 6}},
       .attrs = {attr("axis", int64_t{1}), attr("start", int64_t{1}), attr("stop", int64_t{4})}}};
}
std::vector<OpExample> pad_examples() {
  return {
      {.inputs = {{3, 2}},
       .attrs = {attr("axis", int64_t{1}), attr("before", int64_t{1}), attr("after", int64_t{2})}}};
}
std::vector<OpExample> concat_examples() {
  return {{.inputs = {{3, 2}, {3, 1}, {3, 4}}, .attrs = {attr("axis", int64_t{1})}}};
}

}  // namespace

std::span<const OpDef> layout_ops() {
  static const OpDef kOps[] = {
      {.name = "reshape",
       .help = "the same elements under other dims: a view, nothing moves",
       .signature = "x (..) -> y (shape)",
       .dtypes = "any",
       .attrs = kit::kReshapeAttrs,
       .infer = infer_reshape,
       .vjp = vjp_reshape,
       .is_view = true,
       .precision = PrecisionClass::kFollow,
       .shard = shard_reshape,
       .can_make_part = can_make_reshaped,
       .make_part = make_reshaped,
       .attrs_of_part = shape_of_part,
       .per_sample = reshape_per_sample,
       .examples = reshape_examples},
      {.name = "transpose",
       .help = "permutes the axes",
       .signature = "x (..) -> y (x's dims in the order of perm)",
       .dtypes = "any",
       .attrs = kit::kTransposeAttrs,
       .infer = infer_transpose,
       .vjp = vjp_transpose,
       .flops = no_flops,
       .precision = PrecisionClass::kFollow,
       .shard = shard_transpose,
       .per_sample = along_axes_per_sample,
       .examples = transpose_examples},
      {.name = "slice",
       .help = "the indices [start, stop) of one axis",
       .signature = "x (.., n, ..) -> y (.., stop - start, ..)",
       .dtypes = "any",
       .attrs = kit::kSliceAttrs,
       .infer = infer_blocks<kit::parse_slice>,
       .vjp = vjp_slice,
       .flops = no_flops,
       .precision = PrecisionClass::kFollow,
       .shard = shard_off_axis,
       .per_sample = along_axes_per_sample,
       .examples = slice_examples},
      {.name = "pad",
       .help = "zeros before and behind one axis",
       .signature = "x (.., n, ..) -> y (.., before + n + after, ..)",
       .dtypes = "any",
       .attrs = kit::kPadAttrs,
       .infer = infer_blocks<kit::parse_pad>,
       .vjp = vjp_pad,
       .flops = no_flops,
       .precision = PrecisionClass::kFollow,
       .shard = shard_off_axis,
       .per_sample = along_axes_per_sample,
       .examples = pad_examples},
      {.name = "concat",
       .help = "the inputs one after the other along one axis",
       .signature = "x0 (.., n0, ..), x1 (.., n1, ..), .. -> y (.., n0 + n1 + .., ..)",
       .dtypes = "any, all of one type",
       .attrs = kit::kConcatAttrs,
       .infer = infer_blocks<kit::parse_concat>,
       .vjp = vjp_concat,
       .flops = no_flops,
       .precision = PrecisionClass::kFollow,
       .shard = shard_off_axis,
       .per_sample = concat_per_sample,
       .examples = concat_examples}};
  return kOps;
}

}  // namespace plait::program
