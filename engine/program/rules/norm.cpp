// Normalisation over the last axis. R.. rows, C channels; statistics per row in f32, of f64 in f64.
#include "engine/base/error.hpp"
#include "engine/program/rule.hpp"

namespace plait::program {
namespace {

void check_channels(const Application& a, size_t i, const char* what) {
  const plait_shape& x = a.in[0];
  if (x.ndim < 1 || !is_float(x.dtype))
    fail_invalid(a.where() + " needs rows of floats, found " + text(x));
  const int64_t c = x.dims[x.ndim - 1];
  if (a.in[i].ndim != 1 || a.in[i].dims[0] != c)
    fail_invalid(a.where() + " " + what + " has shape " + text(a.in[i]) + ", rows have " +
                 std::to_string(c) + " channels");
}

plait_shape row_shape(const plait_shape& x) {
  return make_shape(accumulation_dtype(x.dtype), Dims(x.dims, x.dims + x.ndim - 1));
}

std::vector<plait_shape> infer_layer(const Application& a) {
  a.arity(3, 3);
  check_channels(a, 1, "gain");
  check_channels(a, 2, "bias");
  return {a.in[0], row_shape(a.in[0]), row_shape(a.in[0])};
}
std::vector<plait_shape> infer_layer_grad(const Application& a) {
  a.arity(5, 5);
  check_channels(a, 1, "gain");
  return {a.in[0], a.in[1], a.in[1]};
}
void refuse_statistics(const Use& u) {
  for (size_t k = 1; k < u.d_out.size(); ++k)
    if (u.d_out[k])
      fail(PLAIT_ERR_UNIMPLEMENTED,
           "[" + u.op.scope + "] " + u.op.name + ": its statistics have no gradient");
}

void gradient_layer(Use& u) {
  refuse_statistics(u);
  const auto d =
      u.g.apply("layer_norm_grad", {u.op.in[0], u.op.in[1], u.op.out[1], u.op.out[2], u.d_out[0]});
  u.d_in = {d[0], d[1], d[2]};
}

std::vector<plait_shape> infer_rms(const Application& a) {
  a.arity(2, 2);
  check_channels(a, 1, "gain");
  return {a.in[0], row_shape(a.in[0])};
}
std::vector<plait_shape> infer_rms_grad(const Application& a) {
  a.arity(4, 4);
  check_channels(a, 1, "gain");
  return {a.in[0], a.in[1]};
}
void gradient_rms(Use& u) {
  refuse_statistics(u);
  const auto d = u.g.apply("rms_norm_grad", {u.op.in[0], u.op.in[1], u.op.out[1], u.d_out[0]});
  u.d_in = {d[0], d[1]};
}

double flops(const Graph& g, const Op& op) {
  return 8.0 * static_cast<double>(elements(g.shape(op.in[0])));
}

}  // namespace

extern const Rule kLayerNorm, kLayerNormGrad, kRmsNorm, kRmsNormGrad;
const Rule kLayerNorm{"layer_norm", infer_layer, gradient_layer, flops};
const Rule kLayerNormGrad{"layer_norm_grad", infer_layer_grad, nullptr, flops};
const Rule kRmsNorm{"rms_norm", infer_rms, gradient_rms, flops};
const Rule kRmsNormGrad{"rms_norm_grad", infer_rms_grad, nullptr, flops};

}  // namespace plait::program
