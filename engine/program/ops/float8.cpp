// Products of 8-bit floats and what makes their operands: the form that products have behind
// multiply_f8() (engine/program/float8.hpp).
#include "kit/ops/float8.hpp"

#include <plait/comm.h>

#include "engine/program/op_def.hpp"
#include "engine/program/shard_product.hpp"

namespace plait::program {
namespace {

std::vector<plait_shape> infer_greatest_magnitude(const InferContext& c) {
  return {make_shape(PLAIT_F32, kit::parse_greatest_magnitude(c.desc).out)};
}
std::vector<plait_shape> infer_quantize_f8(const InferContext& c) {
  const kit::QuantizeF8 p = kit::parse_quantize_f8(c.desc);
  return {make_shape(p.format, p.numbers), make_shape(PLAIT_F32, p.scale)};
}
std::vector<plait_shape> infer_matmul_f8(const InferContext& c) {
  return {make_shape(result_type(c, PLAIT_F32), kit::parse_matmul_f8(c.desc).out)};
}

double matmul_flops(const Graph& g, const Op& op) {
  const plait_shape& a = g.shape(op.in[0]);
  return 2.0 * static_cast<double>(a.dims[a.ndim - 1]) *
         static_cast<double>(elements(g.shape(op.out[0])));
}

// The dimension of a number for each row or column that lies where x has its shard; -1: none, as
// the ranks have different parts of what shares the number.
int32_t dim_of_shared(const plait_shape& x, int32_t dim, bool columns) {
  const auto last = static_cast<int32_t>(x.ndim) - 1;
  return columns ? (dim == last ? 0 : -1) : (dim == last ? -1 : dim);
}

// The greatest of all shards.
bool shard_greatest_magnitude(const Graph& g, const Op& op, const std::vector<Placement>& have,
                              int64_t, Sharding& s) {
  const std::string of = op.attrs.text("of", "tensor");
  const int32_t dim =
      of == "tensor" ? -1 : dim_of_shared(g.shape(op.in[0]), have[0].dim, of == "columns");
  s.keeps_zeros = true;
  s.in[0] = have[0];
  s.out[0] = dim < 0 ? partial(PLAIT_COMM_MAX) : shard_along(dim);
  return true;
}

// Padding has numbers that are 0 and, in a scale for each row, scales of 1: their products are 0.
bool shard_quantize_f8(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t,
                       Sharding& s) {
  const bool transpose = op.attrs.integer("transpose", 0) != 0;
  s.keeps_zeros = true;
  if (!have[0].is_shard()) return false;
  s.in[0] = have[0];
  s.out[0] = transpose ? shard_along(1 - have[0].dim) : have[0];
  if (g.shape(op.in[1]).ndim > 0)
    s.in[1] = s.out[1] = shard_along(dim_of_shared(g.shape(op.in[0]), have[0].dim, transpose));
  return true;
}

constexpr size_t kBias = 4;  // input of matmul_f8

bool has_bias(const Op& op) { return op.attrs.integer("bias", 0) != 0; }

bool shard_matmul_f8(const Graph& g, const Op& op, const std::vector<Placement>& have, int64_t,
                     Sharding& s) {
  const int32_t quantized = g.value(op.in[1]).producer;
  const ValueId b = quantized < 0 ? op.in[1] : g.ops()[static_cast<size_t>(quantized)].in[0];
  if (!shard_product(g, op, {false, true, b, has_bias(op) ? kBias : 0}, have, s)) return false;
  for (const size_t k : {size_t{0}, size_t{1}})
    if (g.shape(op.in[2 + k]).ndim > 0 && s.in[k].is_shard())
      s.in[2 + k] = shard_along(dim_of_shared(g.shape(op.in[k]), s.in[k].dim, false));
  return true;
}

size_t addend(const Op& op, Op& without) {
  if (!has_bias(op)) return 0;
  without = op;
  without.in.resize(kBias);
  without.attrs.set(attr("bias", false));
  return kBias;
}

}  // namespace

std::span<const OpDef> float8_ops() {
  static const OpDef kOps[] = {
      {.name = "greatest_magnitude",
       .help = "the greatest absolute value; infinity where a number is not finite, 0 of none",
       .signature = "x (.., C) -> most (), of rows (..), of columns (C)",
       .dtypes = "x floats, most f32",
       .attrs = kit::kGreatestMagnitudeAttrs,
       .audience = Audience::kEngine,
       .infer = infer_greatest_magnitude,
       .flops = flops_per_input<1>,
       .prepares_operand = true,
       .precision = PrecisionClass::kFollow,
       .shard = shard_greatest_magnitude},
      {.name = "quantize_f8",
       .help = "x / scale as 8-bit floats, rounded to nearest even; scale is the least power of 2 "
               "for which the greatest magnitude fits the format (448 of e4m3, 57344 of e5m2), at "
               "least 2^-100; 1 of zeros, and NaN, with numbers of 0, where most is not finite",
       .signature = "x (.., C), most () or (..) -> q (.., C), scale as most; transposed: x (R, C), "
                    "most () or (C) -> q (C, R)",
       .dtypes = "x floats, most and scale f32, q f8e4m3 or f8e5m2",
       .attrs = kit::kQuantizeF8Attrs,
       .audience = Audience::kEngine,
       .infer = infer_quantize_f8,
       .flops = flops_per_input<1>,
       .prepares_operand = true,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 1,
       .shard = shard_quantize_f8},
      {.name = "matmul_f8",
       .help = "products of rows with rows, a b^T, times their scales, powers of 2; sums in f32 or "
               "finer",
       .signature = "a (.., m, k), b (n, k), scale_a () or (.., m), scale_b () or (n) [, bias (n)] "
                    "-> y (.., m, n)",
       .dtypes = "a and b f8e4m3 or one of them f8e5m2, scales f32, bias floats",
       .attrs = kit::kMatmulF8Attrs,
       .rewrite_attrs = kit::kMatmulF8Folds,
       .audience = Audience::kEngine,
       .infer = infer_matmul_f8,
       .flops = matmul_flops,
       .is_product = true,
       .folds = kFoldBias | kFoldActivation | kFoldAccumulate,
       .precision = PrecisionClass::kFollow,
       .typed_operands = 0,
       .writes_any_float = true,
       .shard = shard_matmul_f8,
       .addend = addend}};
  return kOps;
}

}  // namespace plait::program
