// Products of 8-bit floats: greatest_magnitude and quantize_f8 make an operand, numbers with a
// scale for the whole or for each row, and matmul_f8 multiplies two of them. R or m rows, n columns
// of the result, C or k columns of an operand.
#pragma once

#include <string>
#include <vector>

#include "kit/float8.hpp"
#include "kit/ops/matmul.hpp"

namespace plait::kit {

inline constexpr plait_option kGreatestMagnitudeAttrs[] = {
    choice_option("of", "\"tensor\"", "tensor|rows|columns",
                  "the whole, each row (over the last axis) or each column of a matrix"),
};
inline constexpr plait_option kQuantizeF8Attrs[] = {
    choice_option("format", "\"e4m3\"", "e4m3|e5m2", "the type of q"),
    bool_option("transpose", "false", "q is x transposed, a matrix; most is of its columns"),
};
inline constexpr plait_option kMatmulF8Attrs[] = {kMatmulBias};
// What rewrites fold in behind the product.
inline constexpr plait_option kMatmulF8Folds[] = {kMatmulActivation, kMatmulAccumulate,
                                                  kResultType};

// What shares a number: all elements, or all elements of a row or column.
enum class ScaleOf { kTensor, kRows, kColumns };

struct GreatestMagnitude {
  int64_t rows = 1, columns = 1;
  ScaleOf of = ScaleOf::kTensor;
  std::vector<int64_t> out;  // dims of `most`
};
GreatestMagnitude parse_greatest_magnitude(const plait_op_desc& d);

struct QuantizeF8 {
  int64_t rows = 1, columns = 1;  // of x
  uint32_t format = 0;            // PLAIT_F8E4M3 or PLAIT_F8E5M2
  bool transpose = false;
  ScaleOf of = ScaleOf::kTensor;        // of x
  std::vector<int64_t> numbers, scale;  // dims of the results
  int64_t scales() const {
    return of == ScaleOf::kTensor ? 1 : of == ScaleOf::kRows ? rows : columns;
  }
};
QuantizeF8 parse_quantize_f8(const plait_op_desc& d);

// As of matmul with transpose_b and one shared b: m counts the rows of all leading dims.
struct MatmulF8 : AnyMatmul {
  bool rows_a = false, rows_b = false;  // a scale for each row of a, and of b
};
MatmulF8 parse_matmul_f8(const plait_op_desc& d);

// Calls f with the format of that type: E4m3 or E5m2.
template <class Function>
auto with_f8(uint32_t dtype, const Function& f) {
  return dtype == PLAIT_F8E5M2 ? f(E5m2{}) : f(E4m3{});
}

// The greater of two magnitudes as bits; whatever is not finite counts as infinite, so that the
// greatest among ranks is well defined.
constexpr uint32_t magnitude_bits(float v) {
  return std::min(std::bit_cast<uint32_t>(v) & 0x7fffffffu, 0x7f800000u);
}

}  // namespace plait::kit
