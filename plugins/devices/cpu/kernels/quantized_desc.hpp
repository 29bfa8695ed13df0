// The product of a desc of matmul_quantized.
#pragma once

#include <algorithm>

#include "kit/ops/quantized.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"
#include "plugins/support/activation.hpp"

namespace plait::cpu {

inline QuantizedDesc quantized_desc(const plait_op_desc& d) {
  const kit::MatmulQuantized p = kit::parse_matmul_quantized(d);
  // support::Activation lists the same functions in the same order.
  const auto known = support::activation_named(p.activation);
  kit::need(known.has_value(), "unknown activation '" + p.activation + "'");
  return {p.m,
          p.n,
          p.k,
          p.bias,
          p.accumulate,
          static_cast<Activation>(*known),
          static_cast<int>(std::clamp<uint32_t>(d.threads, 1, 1024)),
          p.weights.format,
          p.transpose_b};
}

}  // namespace plait::cpu
