#include "kit/ops/halves.hpp"

#include <string>

namespace plait::kit {
namespace {

void need_halves(const plait_shape& x, const plait_shape& high, const plait_shape& low) {
  need(x.dtype == PLAIT_F32, "x needs type f32, found " + text(x));
  need(high.dtype == PLAIT_BF16, "high needs type bf16, found " + text(high));
  need_count(high, elements(x), "high");
  need(low.dtype == PLAIT_U8, "low needs type u8, found " + text(low));
  need_count(low, kLowBytes * elements(x), "low");
}

}  // namespace

plait_shape low_shape(plait_shape high) {
  high.dtype = PLAIT_U8;
  if (high.ndim == 0) {  // of a scalar
    high.ndim = 1;
    high.dims[0] = 1;
  }
  high.dims[high.ndim - 1] *= kLowBytes;
  return high;
}

int64_t parse_split_halves(const plait_op_desc& d) {
  need_operands(d, 1, 2);
  const plait_shape& x = d.inputs[0];
  need(x.dtype == PLAIT_F32, "x needs type f32, found " + text(x));
  if (has_outputs(d)) need_halves(x, d.outputs[0], d.outputs[1]);
  return elements(x);
}

int64_t parse_join_halves(const plait_op_desc& d) {
  need_operands(d, 2, 1);
  const plait_shape &high = d.inputs[0], &low = d.inputs[1];
  need(high.dtype == PLAIT_BF16, "high needs type bf16, found " + text(high));
  need(low.dtype == PLAIT_U8, "low needs type u8, found " + text(low));
  need_count(low, kLowBytes * elements(high), "low");
  if (has_outputs(d)) need_halves(d.outputs[0], high, low);
  return elements(high);
}

}  // namespace plait::kit
