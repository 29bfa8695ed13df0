// Weights as small numbers with scales, and what reads them: the form that a weight has in a
// program that reads it so (quantize.hpp). R rows and C columns of weights; B bytes and F floats
// for each row, see kit/quantized.hpp.
#include "kit/ops/quantized.hpp"

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_quantize(const InferContext& c) {
  const kit::Quantized w = kit::parse_quantize(c.desc);
  return {make_shape(PLAIT_U8, {w.rows, w.bytes()}), make_shape(PLAIT_F32, {w.rows, w.floats()})};
}

std::vector<plait_shape> infer_dequantize(const InferContext& c) {
  const kit::Quantized w = kit::parse_dequantize(c.desc);
  return {make_shape(result_type(c, PLAIT_F32), {w.rows, w.columns})};
}

std::vector<plait_shape> infer_gather(const InferContext& c) {
  return {make_shape(result_type(c, PLAIT_F32), kit::parse_gather_quantized(c.desc).out)};
}

std::vector<plait_shape> infer_product(const InferContext& c) {
  return {make_shape(result_type(c, c.in[0].dtype), kit::parse_matmul_quantized(c.desc).out)};
}

bool has_bias(const Op& op) { return op.attrs.integer("bias", 0) != 0; }

// da = dy times the same weights the other way. These have no gradient.
void vjp_product(VjpContext& u) {
  const ValueId dy = u.d_out[0];
  if (u.wanted[1] || u.wanted[2])
    fail(PLAIT_ERR_UNIMPLEMENTED,
         "[" + u.op.scope + "] op 'matmul_quantized' has no gradient of quantized weights");
  const bool transpose = u.op.attrs.integer("transpose_b", 1) != 0;
  if (u.wanted[0]) {
    const plait_shape& y = u.g.shape(u.op.out[0]);
    const plait_shape& a = u.g.shape(u.op.in[0]);
    Attrs attrs{attr("format", u.op.attrs.text("format", "int8")),
                attr("columns", (transpose ? a : y).dims[a.ndim - 1]),
                attr("transpose_b", !transpose)};
    if (a.dtype != u.g.shape(dy).dtype) attrs.set(attr("dtype", static_cast<int64_t>(a.dtype)));
    u.d_in[0] = u.g.apply1("matmul_quantized", {dy, u.op.in[1], u.op.in[2]}, std::move(attrs));
  }
  if (has_bias(u.op) && u.wanted[3]) u.d_in[3] = sum_to(u.g, dy, u.g.shape(u.op.in[3]));
}

double flops(const Graph& g, const Op& op) {
  const plait_shape& a = g.shape(op.in[0]);
  return 2.0 * static_cast<double>(a.dims[a.ndim - 1]) *
         static_cast<double>(elements(g.shape(op.out[0])));
}

std::optional<IndexUse> index_use(const Graph& g, const Op& op) {
  return IndexUse{2, 0, g.shape(op.in[0]).dims[0], false};
}

}  // namespace

std::span<const OpDef> quantized_ops() {
  static const OpDef kOps[] = {
      {.name = "quantize",
       .help =
           "rows as numbers and scales. int8: scale * (q - 128), a scale for each row and 32 "
           "columns, its greatest absolute value / 127, q rounded to nearest even. nf4: the "
           "nearest "
           "of 16 levels of the normal distribution, two a byte, and behind these a code of 8 bits "
           "for each 64 columns; scale = least + step * code, these two for each 256 codes. "
           "Numbers below 2^-119 become 0; one that is not finite makes what shares its scale NaN",
       .signature = "x (R, C) -> q (R, B), scale (R, F); int8: B = C, F = ceil(C/32); nf4: B = "
                    "ceil(C/2) + ceil(C/64), F = 2 ceil(C/16384)",
       .dtypes = "x floats, q u8, scale f32",
       .attrs = kit::kQuantizeAttrs,
       .audience = Audience::kEngine,
       .infer = infer_quantize,
       .precision = PrecisionClass::kFollow},
      {.name = "dequantize",
       .help = "the weights that quantize made numbers of",
       .signature = "q (R, B), scale (R, F) -> y (R, C)",
       .dtypes = "q u8, scale f32, y floats",
       .attrs = kit::kDequantizeAttrs,
       .rewrite_attrs = {&kit::kResultType, 1},
       .audience = Audience::kEngine,
       .infer = infer_dequantize,
       .precision = PrecisionClass::kFollow,
       .writes_any_float = true},
      {.name = "gather_quantized",
       .help = "rows of a quantized table by their numbers",
       .signature = "q (R, B), scale (R, F), index (I..) -> y (I.., C)",
       .dtypes = "q u8, scale f32, index i32, i64 or u8, y floats",
       .attrs = kit::kDequantizeAttrs,
       .rewrite_attrs = kit::kGatherQuantizedFolds,
       .audience = Audience::kEngine,
       .infer = infer_gather,
       .precision = PrecisionClass::kFollow,
       .writes_any_float = true,
       .index_use = index_use},
      {.name = "matmul_quantized",
       .help = "products of rows with quantized weights, see quantize",
       .signature = "a (.., m, k), q (R, B), scale (R, F) [, bias (n)] -> y (.., m, n); weights "
                    "(R, C) are (n, k), or (k, n) without transpose_b",
       .dtypes = "a and bias floats, q u8, scale f32",
       .attrs = kit::kMatmulQuantizedAttrs,
       .rewrite_attrs = kit::kMatmulQuantizedFolds,
       .audience = Audience::kEngine,
       .infer = infer_product,
       .vjp = vjp_product,
       .flops = flops,
       .is_product = true,
       .folds = kFoldBias | kFoldActivation | kFoldAccumulate,
       .precision = PrecisionClass::kLow,
       .typed_operands = 1,
       .writes_any_float = true}};
  return kOps;
}

}  // namespace plait::program
