// The op `matmul` on a few rows and many 16-bit weights, which are read once, as they lie. The
// rows,
// the bias and the result are few: they are widened before, and narrowed after it.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include "kit/dtype.hpp"
#include "kit/ops/matmul.hpp"
#include "plugins/devices/cpu/half/convert.hpp"
#include "plugins/devices/cpu/kernels/fused_activation.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/matmul/matmul.hpp"

namespace plait::cpu {
namespace {

bool is_half(uint32_t type) { return type == PLAIT_BF16 || type == PLAIT_F16; }

MatmulDesc desc_of_rows(const plait_op_desc& d) {
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
  m.half_b = d.inputs[1].dtype == PLAIT_F16 ? Half::f16 : Half::bf16;
  m.accumulate = p.accumulate;
  m.bias = p.bias;
  m.squares = p.squares;
  m.activation = fused_activation(p.activation);
  m.threads = static_cast<int>(std::clamp<uint32_t>(d.threads, 1, 1024));
  return m;
}

class HalfRows {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const MatmulDesc m = desc_of_rows(d);
    if (!is_half(d.inputs[1].dtype)) {
      why = "takes 16-bit floats";
      return false;
    }
    for (uint32_t i = 2; i < d.n_inputs + d.n_outputs; ++i)
      if (const uint32_t type = (i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs]).dtype;
          type != PLAIT_F32 && !is_half(type)) {
        why = std::string("takes f32 and 16-bit floats, found ") + kit::dtype_name(type);
        return false;
      }
    const KernelChoice c = choose_stream(m);
    if (c.kernel.empty()) {
      why = c.why;
      return false;
    }
    const HalfRows kernel(d);
    choice.workspace = kernel.a_.bytes() + kernel.bias_.bytes() + kernel.y_.bytes();
    why =
        c.kernel + ", " + kit::dtype_name(d.inputs[1].dtype) + " weights widened as they are read";
    return true;
  }
  HalfRows(plait_device*, const plait_op_desc& d) : HalfRows(d) {
    kernel_ = make_matmul(desc_, choose_stream(desc_).kernel);
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    auto* at = static_cast<char*>(workspace);
    const auto wide = [&](const Wide& w, void* operand) {
      if (!w.half) return static_cast<float*>(operand);
      auto* to = reinterpret_cast<float*>(at);
      at += w.bytes();
      return to;
    };
    MatmulArgs args;
    args.a = a_.widen(operands[0], wide(a_, operands[0]));
    args.b = static_cast<const float*>(operands[1]);
    if (desc_.bias) args.bias = bias_.widen(operands[2], wide(bias_, operands[2]));
    void* y = operands[n_inputs_];
    args.c = wide(y_, y);
    if (desc_.accumulate) {
      void* before = operands[n_inputs_ - 1];
      if (y_.half)
        y_.widen(before, args.c);
      else if (before != y)
        std::memcpy(y, before, static_cast<size_t>(y_.n) * sizeof(float));
    }
    kernel_->run(args);
    if (y_.half) narrow_function(y_.type)(args.c, static_cast<uint16_t*>(y), y_.n);
  }

 private:
  // An operand, and its copy in f32 where it has 16 bits.
  struct Wide {
    uint32_t type = PLAIT_F32;
    int64_t n = 0;
    bool half = false;
    Wide() = default;
    explicit Wide(const plait_shape& s)
        : type(s.dtype), n(kit::elements(s)), half(is_half(s.dtype)) {}
    uint64_t bytes() const {
      return half ? (static_cast<uint64_t>(n) * sizeof(float) + 63) / 64 * 64 : 0;
    }
    const float* widen(const void* from, float* to) const {
      if (half) widen_function(type)(static_cast<const uint16_t*>(from), to, n);
      return to;
    }
  };
  explicit HalfRows(const plait_op_desc& d)
      : desc_(desc_of_rows(d)), n_inputs_(d.n_inputs), a_(d.inputs[0]), y_(d.outputs[0]) {
    if (desc_.bias) bias_ = Wide(d.inputs[2]);
  }

  MatmulDesc desc_;
  uint32_t n_inputs_;
  Wide a_, bias_, y_;
  std::unique_ptr<MatmulKernel> kernel_;
};

}  // namespace

void add_matmul_rows(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<HalfRows>("rows", "matmul", kDevice, kFastPriority + 1));
}

}  // namespace plait::cpu
