#include "kit/ops/quantized.hpp"

namespace plait::kit {
namespace {

void need_numbers(const plait_shape& q) {
  need(q.dtype == PLAIT_U8 && q.ndim == 2,
       "q is " + text(q) + ", expected a matrix of " + dtype_name(PLAIT_U8));
}
void need_scales(const plait_shape& q, const plait_shape& scale) {
  need(scale.dtype == PLAIT_F32 && scale.ndim == 2 && scale.dims[0] == q.dims[0] &&
           scale.dims[1] == quant_blocks(q.dims[1]),
       "scale is " + text(scale) + ", expected f32 (" + std::to_string(q.dims[0]) + ", " +
           std::to_string(quant_blocks(q.dims[1])) + ") beside q " + text(q));
}

}  // namespace

Quantize parse_quantize(const plait_op_desc& d) {
  need_operands(d, 1, 2);
  const plait_shape& x = d.inputs[0];
  need_floats(x, "x");
  need(x.ndim == 2, "needs a matrix, found " + text(x));
  if (has_outputs(d)) {
    need_numbers(d.outputs[0]);
    need(d.outputs[0].dims[0] == x.dims[0] && d.outputs[0].dims[1] == x.dims[1],
         "q is " + text(d.outputs[0]) + ", x is " + text(x));
    need_scales(d.outputs[0], d.outputs[1]);
  }
  return {x.dims[0], x.dims[1], quant_blocks(x.dims[1])};
}

MatmulQuantized parse_matmul_quantized(const plait_op_desc& d) {
  const AttrReader attrs(d, kAnyMatmulAttrs);
  MatmulQuantized p;
  read_attrs(attrs, p);
  need_operands(d, 3 + p.bias + p.accumulate, 1);
  const plait_shape &a = d.inputs[0], &q = d.inputs[1];
  need_floats(a, "a");
  need(a.ndim >= 2, "needs rows, found " + text(a));
  need_numbers(q);
  need_scales(q, d.inputs[2]);
  read_shared_b(a, q, p);
  p.blocks = quant_blocks(p.k);
  need_bias_and_y(d, p, 3, p.m);
  return p;
}

}  // namespace plait::kit
