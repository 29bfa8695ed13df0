// The operands of matmul_quantized as its kernels take them.
#pragma once

#include <string>

#include "kit/ops/quantized.hpp"
#include "plugins/devices/cuda/kernels/quantized_args.hpp"
#include "plugins/support/activation.hpp"

namespace plait::cuda {

inline kit::MatmulQuantized parse_product(const plait_op_desc& d) {
  kit::MatmulQuantized p = kit::parse_matmul_quantized(d);
  kit::need(support::activation_named(p.activation).has_value(),
            "unknown activation '" + p.activation + "'");
  return p;
}

class QuantizedProduct {
 public:
  explicit QuantizedProduct(const plait_op_desc& d) : p_(parse_product(d)), y_at_(d.n_inputs) {
    args_.a.dtype = d.inputs[0].dtype;
    if (p_.bias) args_.bias.dtype = d.inputs[3].dtype;
    args_.y.dtype = args_.c.dtype = d.outputs[0].dtype;
    args_.m = p_.m, args_.n = p_.n, args_.k = p_.k, args_.blocks = p_.blocks;
    args_.activation = static_cast<uint32_t>(*support::activation_named(p_.activation));
  }
  const kit::MatmulQuantized& shape() const { return p_; }
  MatmulQuantizedArgs args(void* const* operands) const {
    MatmulQuantizedArgs args = args_;
    args.a.data = operands[0];
    args.q = static_cast<const uint8_t*>(operands[1]);
    args.scale = static_cast<const float*>(operands[2]);
    args.bias.data = p_.bias ? operands[3] : nullptr;
    args.c.data = p_.accumulate ? operands[y_at_ - 1] : nullptr;
    args.y.data = operands[y_at_];
    return args;
  }

 private:
  kit::MatmulQuantized p_;
  size_t y_at_;
  MatmulQuantizedArgs args_{};
};

}  // namespace plait::cuda
