// The operands of matmul_quantized as its kernels take them.
#pragma once

#include "kit/ops/quantized.hpp"
#include "plugins/devices/cuda/kernels/quantized_args.hpp"
#include "plugins/devices/cuda/matmul/product_args.hpp"

namespace plait::cuda {

inline kit::MatmulQuantized parse_product(const plait_op_desc& d) {
  return with_known_activation(kit::parse_matmul_quantized(d));
}

class QuantizedProduct {
 public:
  explicit QuantizedProduct(const plait_op_desc& d) : p_(parse_product(d)), args_(p_, d, 3) {
    args_.fixed.a.dtype = d.inputs[0].dtype;
    args_.fixed.row = p_.weights;
    args_.fixed.blocks = p_.weights.blocks();
    args_.fixed.transpose_b = p_.transpose_b;
  }
  const kit::MatmulQuantized& shape() const { return p_; }
  MatmulQuantizedArgs args(void* const* operands) const {
    MatmulQuantizedArgs args = args_.of(operands);
    args.a.data = operands[0];
    args.q = static_cast<const uint8_t*>(operands[1]);
    args.scale = static_cast<const float*>(operands[2]);
    return args;
  }

 private:
  kit::MatmulQuantized p_;
  ProductArgs<MatmulQuantizedArgs> args_;
};

}  // namespace plait::cuda
