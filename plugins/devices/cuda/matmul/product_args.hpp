// What the arguments of our kernels have in common, whichever numbers they multiply: the extents,
// the activation, bias, c and y.
#pragma once

#include "kit/ops/matmul.hpp"
#include "plugins/support/activation.hpp"

namespace plait::cuda {

// Throws Invalid where our kernels do not have the activation.
template <class P>
P with_known_activation(P p) {
  support::activation_named(p.activation);
  return p;
}

template <class Args>
class ProductArgs {
 public:
  // The bias is input `bias_at`. The caller sets the rest of `fixed`.
  ProductArgs(const kit::AnyMatmul& p, const plait_op_desc& d, uint32_t bias_at)
      : bias_(p.bias), accumulate_(p.accumulate), bias_at_(bias_at), y_at_(d.n_inputs) {
    if (p.bias) fixed.bias.dtype = d.inputs[bias_at].dtype;
    fixed.y.dtype = fixed.c.dtype = d.outputs[0].dtype;
    fixed.m = p.m, fixed.n = p.n, fixed.k = p.k;
    fixed.activation = static_cast<uint32_t>(support::activation_named(p.activation));
  }
  // With bias, c and y among the operands of the op.
  Args of(void* const* operands) const {
    Args args = fixed;
    args.bias.data = bias_ ? operands[bias_at_] : nullptr;
    args.c.data = accumulate_ ? operands[y_at_ - 1] : nullptr;
    args.y.data = operands[y_at_];
    return args;
  }
  Args fixed{};  // without the operands

 private:
  bool bias_, accumulate_;
  uint32_t bias_at_, y_at_;
};

}  // namespace plait::cuda
