// Normalisation over the last axis. R.. rows, C channels; statistics per row in f32, of f64 in f64.
#include "kit/ops/norm.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"

namespace plait::program {
namespace {

plait_shape row_shape(const plait_shape& x) {
  return make_shape(accumulation_dtype(x.dtype), Dims(x.dims, x.dims + x.ndim - 1));
}

plait_shape written(const InferContext& c) {
  plait_shape y = c.in[0];
  y.dtype = result_type(c, y.dtype);
  return y;
}
// Of the gradient: that has the type of x.
Attrs of_gradient(const Op& op) { return {attr("eps", op.attrs.real("eps", 1e-5))}; }

std::vector<plait_shape> infer_layer(const InferContext& c) {
  kit::parse_norm(c.desc, true, false);
  return {written(c), row_shape(c.in[0]), row_shape(c.in[0])};
}
std::vector<plait_shape> infer_layer_grad(const InferContext& c) {
  kit::parse_norm(c.desc, true, true);
  return {c.in[0], c.in[1], c.in[1]};
}
std::vector<plait_shape> infer_rms(const InferContext& c) {
  kit::parse_norm(c.desc, false, false);
  return {written(c), row_shape(c.in[0])};
}
std::vector<plait_shape> infer_rms_grad(const InferContext& c) {
  kit::parse_norm(c.desc, false, true);
  return {c.in[0], c.in[1]};
}

void vjp_layer(VjpContext& u) {
  u.d_in =
      u.g.apply("layer_norm_grad", {u.op.in[0], u.op.in[1], u.op.out[1], u.op.out[2], u.d_out[0]},
                of_gradient(u.op));
}
void vjp_rms(VjpContext& u) {
  u.d_in = u.g.apply("rms_norm_grad", {u.op.in[0], u.op.in[1], u.op.out[1], u.d_out[0]},
                     of_gradient(u.op));
}

// Rows are independent: along every dimension but the last. Input 1, the gain, and the bias of the
// forward pass are of channels. In the backward pass each rank has terms of their gradients.
template <bool grad>
bool shard(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t, Sharding& s) {
  const Placement p = first_shard(have);
  if (p.dim == static_cast<int32_t>(g.shape(op.in[0]).ndim) - 1) return false;
  s.in[0] = p;
  if (grad) std::fill(s.in.begin() + 2, s.in.end(), p);
  std::fill(s.out.begin(), s.out.end(), grad ? partial(PLAIT_COMM_SUM) : p);
  s.out[0] = p;
  return true;
}

// A norm over channels that lie in shards, as q and k of heads do: only sums of each row are
// communicated.
int32_t channels_of(const ShardContext& u) {
  return static_cast<int32_t>(u.from.shape(u.op.in[0]).ndim) - 1;
}
bool by_channels(const ShardContext& u) { return u.have[0] == shard_along(channels_of(u)); }

// The sum over all channels, (R.., 1). kind: of reduce.
ValueId row_sum(ShardContext& u, const char* kind, ValueId v) {
  return u.all_reduce(u.to.apply1("reduce", {v},
                                  {attr("kind", std::string(kind)),
                                   attr("axes", Dims{channels_of(u)}), attr("keep", true)}),
                      PLAIT_COMM_SUM);
}
double over_channels(const ShardContext& u) {
  return 1 / static_cast<double>(u.from.shape(u.op.in[0]).dims[channels_of(u)]);
}
ValueId widened(ShardContext& u, size_t input, Placement p) {
  return u.to.as_type(u.input(input, p), accumulation_dtype(u.from.shape(u.op.in[0]).dtype));
}

bool write_sharded_rms(ShardContext& u) {
  if (!by_channels(u)) return false;
  Graph& g = u.to;
  const ValueId x = widened(u, 0, u.have[0]), gain = widened(u, 1, shard_along(0));
  const ValueId variance =
      binary(g, "add", scaled(g, row_sum(u, "sum_squares", x), over_channels(u)),
             g.constant(u.op.attrs.real("eps", 0)));
  const ValueId rstd = binary(g, "div", g.constant(1), g.apply1("sqrt", {variance}));
  const ValueId y = binary(g, "mul", binary(g, "mul", x, rstd), gain);
  u.out = {g.as_type(y, u.from.shape(u.op.out[0]).dtype),
           reshaped(g, rstd, dims_of(u.from.shape(u.op.out[1])))};
  u.out_placement = {u.have[0], kReplicated};
  return true;
}

bool write_sharded_rms_grad(ShardContext& u) {
  if (!by_channels(u)) return false;
  Graph& g = u.to;
  const ValueId x = widened(u, 0, u.have[0]), gain = widened(u, 1, shard_along(0)),
                dy = widened(u, 3, u.have[0]);
  Dims column = dims_of(u.from.shape(u.op.in[2])), rows;
  for (int64_t d = 0; d < static_cast<int64_t>(column.size()); ++d) rows.push_back(d);
  column.push_back(1);
  const ValueId rstd = reshaped(g, u.input(2, kReplicated), column);
  const ValueId normal = binary(g, "mul", x, rstd), scaled_dy = binary(g, "mul", dy, gain);
  const ValueId mean =
      scaled(g, row_sum(u, "sum", binary(g, "mul", scaled_dy, normal)), over_channels(u));
  const ValueId dx =
      binary(g, "mul", binary(g, "sub", scaled_dy, binary(g, "mul", normal, mean)), rstd);
  const ValueId d_gain =
      g.apply1("reduce", {binary(g, "mul", dy, normal)}, {attr("axes", rows), attr("keep", false)});
  u.out = {g.as_type(dx, u.from.shape(u.op.in[0]).dtype),
           g.as_type(d_gain, u.from.shape(u.op.in[1]).dtype)};
  u.out_placement = {u.have[0], shard_along(0)};
  return true;
}

std::vector<OpExample> layer_examples() {
  return {{.inputs = {{3, 5}, {5}, {5}}, .attrs = {attr("eps", 1e-5)}}};
}
std::vector<OpExample> rms_examples() {
  return {{.inputs = {{2, 3, 5}, {5}}, .attrs = {attr("eps", 1e-5)}}};
}

}  // namespace

std::span<const OpDef> norm_ops() {
  static const OpDef kOps[] = {
      {.name = "layer_norm",
       .help = "(x - mean) / sqrt(variance + eps) of each row, times gain, plus bias",
       .signature = "x (R.., C), gain (C), bias (C) -> y (R.., C), mean (R..), rstd (R..)",
       .dtypes = "floats; statistics f32",
       .attrs = kit::kNormAttrs,
       .rewrite_attrs = kit::kNormWrites,
       .infer = infer_layer,
       .vjp = vjp_layer,
       .differentiable_outputs = 1,
       .flops = flops_per_input<8>,
       .cheap_to_recompute = true,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 1,
       .writes_any_float = true,
       .shard = shard<false>,
       .examples = layer_examples},
      {.name = "layer_norm_grad",
       .help = "gradients of layer_norm",
       .signature = "x (R.., C), gain (C), mean (R..), rstd (R..), dy (R.., C) -> dx (R.., C), "
                    "d_gain (C), d_bias (C)",
       .dtypes = "floats; statistics f32",
       .attrs = kit::kNormAttrs,
       .infer = infer_layer_grad,
       .flops = flops_per_input<8>,
       .shard = shard<true>},
      {.name = "rms_norm",
       .help = "x / sqrt(mean(x^2) + eps) of each row, times gain",
       .signature = "x (R.., C), gain (C) -> y (R.., C), rstd (R..)",
       .dtypes = "floats; statistics f32",
       .attrs = kit::kNormAttrs,
       .rewrite_attrs = kit::kNormWrites,
       .infer = infer_rms,
       .vjp = vjp_rms,
       .differentiable_outputs = 1,
       .flops = flops_per_input<8>,
       .cheap_to_recompute = true,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 1,
       .writes_any_float = true,
       .shard = shard<false>,
       .write_sharded = write_sharded_rms,
       .examples = rms_examples},
      {.name = "rms_norm_grad",
       .help = "gradients of rms_norm",
       .signature = "x (R.., C), gain (C), rstd (R..), dy (R.., C) -> dx (R.., C), d_gain (C)",
       .dtypes = "floats; statistics f32",
       .attrs = kit::kNormAttrs,
       .infer = infer_rms_grad,
       .flops = flops_per_input<8>,
       .shard = shard<true>,
       .write_sharded = write_sharded_rms_grad}};
  return kOps;
}

}  // namespace plait::program
