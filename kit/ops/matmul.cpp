#include "kit/ops/matmul.hpp"

namespace plait::kit {
namespace {

// What kernels read.
constexpr plait_option kRead[] = {kMatmulTransposeA, kMatmulTransposeB, kMatmulBias,
                                  kMatmulActivation, kMatmulAccumulate, kMatmulSquares,
                                  kMatmulTf32};

Matmul attributes(const plait_op_desc& d) {
  const AttrReader attrs(d, kRead);
  Matmul p;
  read_attrs(attrs, p);
  p.transpose_a = attrs.flag("transpose_a");
  p.transpose_b = attrs.flag("transpose_b");
  p.squares = attrs.flag("squares");
  p.tf32 = attrs.flag("tf32");
  need(!p.squares || (!p.bias && !p.accumulate && p.activation == "none"),
       "squares excludes bias, accumulate and activation");
  return p;
}

void read_sizes(const plait_shape& a, const plait_shape& b, Matmul& p) {
  need(a.ndim >= 2 && b.ndim >= 2, "needs matrices, found " + text(a) + " and " + text(b));
  need(is_float(a.dtype) && a.dtype == b.dtype,
       "needs two operands of one float type, found " + text(a) + " and " + text(b));
  p.m = a.dims[a.ndim - (p.transpose_a ? 1 : 2)];
  p.k = a.dims[a.ndim - (p.transpose_a ? 2 : 1)];
  p.n = b.dims[b.ndim - (p.transpose_b ? 2 : 1)];
  const int64_t k = b.dims[b.ndim - (p.transpose_b ? 1 : 2)];
  need(p.k == k, "inner extents differ: " + std::to_string(p.k) + " in " + text(a) +
                     (p.transpose_a ? " transposed" : "") + ", " + std::to_string(k) + " in " +
                     text(b) + (p.transpose_b ? " transposed" : ""));
  p.out.assign(a.dims, a.dims + a.ndim - 2);
  for (const int64_t extent : p.out) p.batch *= extent;
  const bool shared_b = b.ndim == 2;
  need(shared_b || std::vector<int64_t>(b.dims, b.dims + b.ndim - 2) == p.out,
       "leading extents differ: " + text(a) + " and " + text(b));
  need(!shared_b || a.ndim == 2 || !p.transpose_a,
       "transpose_a with one shared matrix b is not defined: reshape a first");
  p.stride_a = p.m * p.k;
  p.stride_b = shared_b ? 0 : p.k * p.n;
  p.out.push_back(p.m);
  p.out.push_back(p.n);
  if (p.batch != 1 && shared_b) {
    p.m *= p.batch;
    p.batch = 1;
  }
}

}  // namespace

void read_attrs(const AttrReader& attrs, AnyMatmul& p) {
  p.bias = attrs.flag("bias");
  p.accumulate = attrs.flag("accumulate");
  p.activation = attrs.text("activation");
  need(!p.accumulate || (!p.bias && p.activation == "none"),
       "accumulate excludes bias and activation");
}

void need_bias_and_y(const plait_op_desc& d, const AnyMatmul& p, uint32_t bias_at, int64_t rows) {
  if (p.bias) {
    const plait_shape& bias = d.inputs[bias_at];
    need_floats(bias, "bias");
    need(elements(bias) == p.n && bias.ndim == 1,
         "bias has shape " + text(bias) + ", expected (" + std::to_string(p.n) + ")");
  }
  if (!has_outputs(d)) return;
  need_n_floats(d.outputs[0], rows * p.n, "y");
  if (p.accumulate) need_same(d.inputs[d.n_inputs - 1], d.outputs[0]);
}

void read_shared_b(const plait_shape& a, const plait_shape& b, AnyMatmul& p) {
  p.k = a.dims[a.ndim - 1];
  need(b.dims[1] == p.k, "inner extents differ: " + text(a) + " and " + text(b));
  p.n = b.dims[0];
  p.m = 1;
  p.out.assign(a.dims, a.dims + a.ndim - 1);
  for (const int64_t extent : p.out) p.m *= extent;
  p.out.push_back(p.n);
}

Matmul parse_matmul(const plait_op_desc& d, Tf32 tf32) {
  Matmul p = attributes(d);
  need(!p.tf32 || tf32 == Tf32::kKnown, "computes products of f32 in f32, not in TF32");
  need_operands(d, 2 + p.bias + p.accumulate, p.squares ? 2 : 1);
  read_sizes(d.inputs[0], d.inputs[1], p);
  need(!p.tf32 || d.inputs[0].dtype == PLAIT_F32,
       "tf32 needs operands of f32, found " + text(d.inputs[0]));
  need_bias_and_y(d, p, 2, p.batch * p.m);
  if (p.squares && has_outputs(d)) need_count(d.outputs[1], 1, "squares");
  return p;
}

}  // namespace plait::kit
