// The product of a desc of matmul_quantized.
#pragma once

#include <algorithm>

#include "kit/ops/quantized.hpp"
#include "plugins/devices/cpu/kernels/fused_activation.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"

namespace plait::cpu {

inline QuantizedDesc quantized_desc(const plait_op_desc& d) {
  const kit::MatmulQuantized p = kit::parse_matmul_quantized(d);
  return {p.m,
          p.n,
          p.k,
          p.bias,
          p.accumulate,
          fused_activation(p.activation),
          static_cast<int>(std::clamp<uint32_t>(d.threads, 1, 1024)),
          p.weights.format,
          p.transpose_b};
}

}  // namespace plait::cpu
