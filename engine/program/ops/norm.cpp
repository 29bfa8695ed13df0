// Normalisation over the last axis. R.. rows, C channels; statistics per row in f32, of f64 in f64.
#include "kit/ops/norm.hpp"

#include <plait/comm.h>

#include <algorithm>

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

plait_shape row_shape(const plait_shape& x) {
  return make_shape(accumulation_dtype(x.dtype), Dims(x.dims, x.dims + x.ndim - 1));
}

std::vector<plait_shape> infer_layer(const InferContext& c) {
  kit::parse_norm(c.desc, true, false);
  return {c.in[0], row_shape(c.in[0]), row_shape(c.in[0])};
}
std::vector<plait_shape> infer_layer_grad(const InferContext& c) {
  kit::parse_norm(c.desc, true, true);
  return {c.in[0], c.in[1], c.in[1]};
}
std::vector<plait_shape> infer_rms(const InferContext& c) {
  kit::parse_norm(c.desc, false, false);
  return {c.in[0], row_shape(c.in[0])};
}
std::vector<plait_shape> infer_rms_grad(const InferContext& c) {
  kit::parse_norm(c.desc, false, true);
  return {c.in[0], c.in[1]};
}

void vjp_layer(VjpContext& u) {
  u.d_in = u.g.apply("layer_norm_grad",
                     {u.op.in[0], u.op.in[1], u.op.out[1], u.op.out[2], u.d_out[0]}, u.op.attrs);
}
void vjp_rms(VjpContext& u) {
  u.d_in =
      u.g.apply("rms_norm_grad", {u.op.in[0], u.op.in[1], u.op.out[1], u.d_out[0]}, u.op.attrs);
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
       .infer = infer_layer,
       .vjp = vjp_layer,
       .differentiable_outputs = 1,
       .flops = flops_per_input<8>,
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
       .infer = infer_rms,
       .vjp = vjp_rms,
       .differentiable_outputs = 1,
       .flops = flops_per_input<8>,
       .shard = shard<false>,
       .examples = rms_examples},
      {.name = "rms_norm_grad",
       .help = "gradients of rms_norm",
       .signature = "x (R.., C), gain (C), rstd (R..), dy (R.., C) -> dx (R.., C), d_gain (C)",
       .dtypes = "floats; statistics f32",
       .attrs = kit::kNormAttrs,
       .infer = infer_rms_grad,
       .flops = flops_per_input<8>,
       .shard = shard<true>}};
  return kOps;
}

}  // namespace plait::program
