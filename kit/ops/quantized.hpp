// quantize, and what reads its results: products in both directions, rows by number, all rows.
// kit/quantized.hpp says what the bytes are. R rows and C columns of weights.
#pragma once

#include <vector>

#include "kit/op_attrs.hpp"
#include "kit/ops/gather.hpp"
#include "kit/ops/matmul.hpp"
#include "kit/quantized.hpp"

namespace plait::kit {

inline constexpr plait_option kQuantFormat =
    choice_option("format", "\"int8\"", "int8|nf4", "what the bytes of a row are");
inline constexpr plait_option kQuantColumns =
    at_least(int_option("columns", "0", "columns of the weights; 0: int8 has as many bytes"), 0);

inline constexpr plait_option kQuantizeAttrs[] = {kQuantFormat};
inline constexpr plait_option kDequantizeAttrs[] = {kQuantFormat, kQuantColumns};
inline constexpr plait_option kMatmulQuantizedAttrs[] = {
    kMatmulBias, kQuantFormat, kQuantColumns,
    bool_option("transpose_b", "true", "the weights are (n, k), else (k, n)")};
// What rewrites fold in behind the product.
inline constexpr plait_option kMatmulQuantizedFolds[] = {kMatmulActivation, kMatmulAccumulate,
                                                         kResultType};
// Of a table of which this is a part; see gather.
inline constexpr plait_option kGatherQuantizedFolds[] = {kGatherPart[0], kGatherPart[1],
                                                         kResultType};

// Weights (R, C).
struct Quantized : QuantRow {
  int64_t rows = 0;
};
// One weight of whole operands.
inline double weight_at(const Quantized& w, const void* q, const void* scales, int64_t row,
                        int64_t column) {
  return w.weight(static_cast<const uint8_t*>(q) + row * w.bytes(),
                  static_cast<const float*>(scales) + row * w.floats(), column);
}

Quantized parse_quantize(const plait_op_desc& d);
Quantized parse_dequantize(const plait_op_desc& d);

struct GatherQuantized : Gather {
  Quantized weights;
};
GatherQuantized parse_gather_quantized(const plait_op_desc& d);

// As of matmul with one shared b: m counts the rows of all leading dims.
struct MatmulQuantized : AnyMatmul {
  Quantized weights;  // (n, k), or (k, n)
  bool transpose_b = true;
};
MatmulQuantized parse_matmul_quantized(const plait_op_desc& d);

}  // namespace plait::kit
