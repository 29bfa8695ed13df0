// Weights as numbers of 8 bits with a scale for each row and block of 32 columns, and products with
// them: w = scale * (q - 128). R or n rows, C or k columns.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kit/op_attrs.hpp"
#include "kit/ops/matmul.hpp"

namespace plait::kit {

inline constexpr int64_t kQuantBlock = 32;  // columns of a scale; the last block may have fewer
inline constexpr int64_t quant_blocks(int64_t columns) {
  return (columns + kQuantBlock - 1) / kQuantBlock;
}

inline constexpr plait_option kMatmulQuantizedAttrs[] = {kMatmulBias};
// What rewrites fold in behind the product.
inline constexpr plait_option kMatmulQuantizedFolds[] = {kMatmulActivation, kMatmulAccumulate,
                                                         kResultType};

struct Quantize {
  int64_t rows = 0, columns = 0, blocks = 0;
};
Quantize parse_quantize(const plait_op_desc& d);

// As of matmul with transpose_b and one shared b: m counts the rows of all leading dims.
struct MatmulQuantized : AnyMatmul {
  int64_t blocks = 0;
};
MatmulQuantized parse_matmul_quantized(const plait_op_desc& d);

// One block: the same bits on every device. Symmetric, of 255 steps, rounded to nearest even. A
// block of numbers below 2^-119 is zeros, as its scale would be subnormal; one with a number that
// is not finite has the scale NaN, so that its products are NaN.
inline float quantize_block(const float* w, int64_t n, uint8_t* q) {
  uint32_t most = 0;  // the bits of the greatest absolute value
  for (int64_t i = 0; i < n; ++i)
    most = std::max(most, std::bit_cast<uint32_t>(w[i]) & 0x7fffffffu);
  constexpr uint32_t kInfinite = 0x7f800000u, kLeast = 0x04000000u;  // 2^-119
  if (most < kLeast || most >= kInfinite) {
    std::fill(q, q + n, uint8_t{128});
    return most < kLeast ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  constexpr float kSteps = 127, kRound = 12582912;  // 1.5 * 2^23: a sum with it has no fraction
  const float scale = std::bit_cast<float>(most) / kSteps;
  for (int64_t i = 0; i < n; ++i) {
    const float near = std::clamp(w[i] / scale, -kSteps, kSteps) + kRound;
    q[i] = static_cast<uint8_t>(static_cast<int32_t>(near - kRound) + 128);
  }
  return scale;
}

}  // namespace plait::kit
