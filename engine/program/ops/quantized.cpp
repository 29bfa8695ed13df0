// Weights as numbers of 8 bits, and products with them: the form that a product with rows of
// weights has in a program that reads them so (quantize.hpp).
#include "kit/ops/quantized.hpp"

#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_quantize(const InferContext& c) {
  const kit::Quantize p = kit::parse_quantize(c.desc);
  return {make_shape(PLAIT_U8, {p.rows, p.columns}), make_shape(PLAIT_F32, {p.rows, p.blocks})};
}

std::vector<plait_shape> infer(const InferContext& c) {
  return {make_shape(result_type(c, c.in[0].dtype), kit::parse_matmul_quantized(c.desc).out)};
}

double flops(const Graph& g, const Op& op) {
  const plait_shape& a = g.shape(op.in[0]);
  return 2.0 * static_cast<double>(a.dims[a.ndim - 1]) *
         static_cast<double>(elements(g.shape(op.out[0])));
}

}  // namespace

std::span<const OpDef> quantized_ops() {
  static const OpDef kOps[] = {
      {.name = "quantize",
       .help = "rows as scale * (q - 128), a scale for each row and 32 columns: its greatest "
               "absolute value / 127, q rounded to nearest even; of numbers below 2^-119 scale 0, "
               "of one that is not finite NaN",
       .signature = "x (R, C) -> q (R, C), scale (R, ceil(C/32))",
       .dtypes = "x floats, q u8, scale f32",
       .audience = Audience::kEngine,
       .infer = infer_quantize,
       .precision = PrecisionClass::kFollow},
      {.name = "matmul_quantized",
       .help = "products of rows with rows of weights w = scale * (q - 128), see quantize",
       .signature = "a (.., m, k), q (n, k), scale (n, ceil(k/32)) [, bias (n)] -> y (.., m, n)",
       .dtypes = "a and bias floats, q u8, scale f32",
       .attrs = kit::kMatmulQuantizedAttrs,
       .rewrite_attrs = kit::kMatmulQuantizedFolds,
       .audience = Audience::kEngine,
       .infer = infer,
       .flops = flops,
       .is_product = true,
       .folds = kFoldBias | kFoldActivation | kFoldAccumulate,
       .precision = PrecisionClass::kLow,
       .typed_operands = 1,
       .writes_any_float = true}};
  return kOps;
}

}  // namespace plait::program
