// The op `matmul` on f32: hands the product to the component in matmul/.
#include "plugins/devices/cpu/matmul/matmul.hpp"

#include <algorithm>
#include <cstring>

#include "kit/dtype.hpp"
#include "kit/ops/matmul.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/support/activation.hpp"

namespace plait::cpu {
namespace {

// support::Activation lists the same functions in the same order.
Activation activation(const std::string& name) {
  const auto known = support::activation_named(name);
  kit::need(known.has_value(), "unknown activation '" + name + "'");
  return static_cast<Activation>(*known);
}

MatmulDesc desc_of(const plait_op_desc& d) {
  const kit::Matmul p = kit::parse_matmul(d);
  MatmulDesc m;
  m.batch = p.batch;
  m.m = p.m;
  m.n = p.n;
  m.k = p.k;
  m.transpose_a = p.transpose_a;
  m.transpose_b = p.transpose_b;
  m.batch_stride_a = p.batch == 1 ? 0 : p.stride_a;
  m.batch_stride_b = p.batch == 1 ? 0 : p.stride_b;
  m.batch_stride_c = p.m * p.n;
  m.accumulate = p.accumulate;
  m.bias = p.bias;
  m.squares = p.squares;
  m.activation = activation(p.activation);
  m.threads = static_cast<int>(std::clamp<uint32_t>(d.threads, 1, 1024));
  return m;
}

class CpuMatmul {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const MatmulDesc m = desc_of(d);
    for (uint32_t i = 0; i < d.n_inputs + d.n_outputs; ++i)
      if (const uint32_t type = (i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs]).dtype;
          type != PLAIT_F32) {
        why = std::string("takes f32 only, found ") + kit::dtype_name(type);
        return false;
      }
    const KernelChoice c = choose_matmul(m);
    choice.workspace = c.workspace_bytes;
    why = c.kernel + (c.why.empty() ? "" : "; " + c.why);
    return true;
  }
  CpuMatmul(plait_device*, const plait_op_desc& d)
      : kernel_(make_matmul(desc_of(d))), y_(d.n_inputs) {
    const kit::Matmul p = kit::parse_matmul(d);
    bias_ = p.bias;
    squares_ = p.squares;
    if (p.accumulate) add_to_ = kit::bytes(d.outputs[0]);
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    MatmulArgs args;
    args.a = static_cast<const float*>(operands[0]);
    args.b = static_cast<const float*>(operands[1]);
    args.bias = bias_ ? static_cast<const float*>(operands[2]) : nullptr;
    args.c = static_cast<float*>(operands[y_]);
    args.squares = squares_ ? static_cast<float*>(operands[y_ + 1]) : nullptr;
    args.workspace = workspace;
    if (add_to_ && operands[y_ - 1] != operands[y_])
      std::memcpy(operands[y_], operands[y_ - 1], add_to_);
    kernel_->run(args);
  }

 private:
  std::unique_ptr<MatmulKernel> kernel_;
  bool bias_ = false, squares_ = false;
  uint32_t y_;           // operand
  uint64_t add_to_ = 0;  // bytes of y when the product is added to the operand before it
};

}  // namespace

void add_matmul(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuMatmul>("fast", "matmul", kDevice, kFastPriority));
}

}  // namespace plait::cpu
