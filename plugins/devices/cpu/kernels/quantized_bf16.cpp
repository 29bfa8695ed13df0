// matmul_quantized of bf16, where the machine has instructions for products of bf16.
#include <cstring>

#include "kit/dtype.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/quantized_desc.hpp"
#include "plugins/devices/cpu/matmul/quantized_dot.hpp"

namespace plait::cpu {
namespace {

// y of f32 is left to others: weights of bf16 are too coarse for it.
class Bf16MatmulOfQuantized {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const QuantizedDesc m = quantized_desc(d);
    const uint32_t y = d.outputs[0].dtype;
    if (d.inputs[0].dtype != PLAIT_BF16 || y != PLAIT_BF16) {
      why = std::string("takes bf16 and gives bf16, found ") + kit::dtype_name(d.inputs[0].dtype) +
            " and " + kit::dtype_name(y);
      return false;
    }
    if (m.bias && d.inputs[3].dtype != PLAIT_F32) {
      why = std::string("takes a bias of f32 only, found ") + kit::dtype_name(d.inputs[3].dtype);
      return false;
    }
    const KernelChoice kernel = QuantizedDot::choose(m);
    choice.workspace = kernel.workspace_bytes;
    why = kernel.kernel.empty() ? kernel.why
                                : kernel.kernel + " of some columns at a time, weights as bf16";
    return !kernel.kernel.empty();
  }
  Bf16MatmulOfQuantized(plait_device*, const plait_op_desc& d)
      : desc_(quantized_desc(d)),
        kernel_(desc_),
        y_(d.n_inputs),
        bytes_(kit::bytes(d.outputs[0])) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    if (desc_.accumulate && operands[y_ - 1] != operands[y_])
      std::memcpy(operands[y_], operands[y_ - 1], bytes_);
    QuantizedDotArgs args;
    args.a = static_cast<const uint16_t*>(operands[0]);
    args.numbers = static_cast<const uint8_t*>(operands[1]);
    args.scales = static_cast<const float*>(operands[2]);
    if (desc_.bias) args.bias = static_cast<const float*>(operands[3]);
    args.c = static_cast<uint16_t*>(operands[y_]);
    args.workspace = workspace;
    kernel_.run(args);
  }

 private:
  QuantizedDesc desc_;
  QuantizedDot kernel_;
  uint32_t y_;  // operand
  uint64_t bytes_;
};

}  // namespace

void add_quantized_bf16(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<Bf16MatmulOfQuantized>("bf16", "matmul_quantized", kDevice, kFastPriority));
}

}  // namespace plait::cpu
