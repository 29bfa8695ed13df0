// The ops `quantize` and `matmul_quantized`: hands products to the component in matmul/.
#include "kit/ops/quantized.hpp"

#include <algorithm>
#include <cstring>

#include "kit/dtype.hpp"
#include "plugins/devices/cpu/half/convert.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"
#include "plugins/devices/cpu/matmul/quantized.hpp"
#include "plugins/support/activation.hpp"

namespace plait::cpu {
namespace {

// 16-bit weights are widened one block at a time.
class Quantize {
 public:
  static bool select(const plait_op_desc& d, plait_choice&, std::string& why) {
    kit::parse_quantize(d);
    const uint32_t dtype = d.inputs[0].dtype;
    const bool taken = dtype == PLAIT_F32 || dtype == PLAIT_BF16 || dtype == PLAIT_F16;
    why = taken ? "rows divided among threads"
                : std::string("takes f32, bf16 and f16, found ") + kit::dtype_name(dtype);
    return taken;
  }
  Quantize(plait_device*, const plait_op_desc& d)
      : p_(kit::parse_quantize(d)),
        bytes_per_weight_(static_cast<int64_t>(kit::dtype_bytes(d.inputs[0].dtype))) {
    if (d.inputs[0].dtype != PLAIT_F32) widen_ = widen_function(d.inputs[0].dtype);
    const double nanoseconds_per_element = p_.nf4() ? 4 : 1;
    threads_ = choose_num_threads(
        d.threads, static_cast<double>(p_.rows * p_.columns) * nanoseconds_per_element, p_.rows);
  }
  void run(plait_queue*, void* const* operands, void*) const {
    in_parallel(threads_, p_.rows, [&](int64_t first, int64_t last) {
      for (int64_t row = first; row < last; ++row) {
        const char* w =
            static_cast<const char*>(operands[0]) + row * p_.columns * bytes_per_weight_;
        auto* q = static_cast<uint8_t*>(operands[1]) + row * p_.bytes();
        float* scales = static_cast<float*>(operands[2]) + row * p_.floats();
        for (int64_t i = 0; i < p_.columns; i += p_.part())
          part(w + i * bytes_per_weight_, i, std::min(p_.part(), p_.columns - i), q, scales);
      }
    });
  }

 private:
  void part(const char* w, int64_t first, int64_t n, uint8_t* q, float* scales) const {
    if (!widen_)
      return kit::quantize_part(p_, reinterpret_cast<const float*>(w), first, n, q, scales);
    float wide[kit::kNf4Group];
    widen_(reinterpret_cast<const uint16_t*>(w), wide, n);
    kit::quantize_part(p_, wide, first, n, q, scales);
  }

  kit::Quantized p_;
  int64_t bytes_per_weight_;
  WidenFunction widen_ = nullptr;  // null: the weights are f32
  int threads_ = 1;
};

class MatmulOfQuantized {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const QuantizedDesc m = desc_of(d);
    for (uint32_t i = 0; i < d.n_inputs + d.n_outputs; ++i) {
      const uint32_t type = (i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs]).dtype;
      if (type != PLAIT_F32 && i != kNumbers) {
        why = std::string("takes f32 only, found ") + kit::dtype_name(type);
        return false;
      }
    }
    const KernelChoice kernel = QuantizedMatmul::choose(m);
    choice.workspace = kernel.workspace_bytes;
    why = kernel.kernel + (kernel.kernel.empty() ? "" : ", ") + kernel.why;
    return !kernel.kernel.empty();
  }
  MatmulOfQuantized(plait_device*, const plait_op_desc& d)
      : desc_(desc_of(d)), kernel_(desc_), y_(d.n_inputs), bytes_(kit::bytes(d.outputs[0])) {}
  void run(plait_queue*, void* const* operands, void* workspace) const {
    QuantizedArgs args;
    args.a = static_cast<const float*>(operands[0]);
    args.numbers = static_cast<const uint8_t*>(operands[kNumbers]);
    args.scales = static_cast<const float*>(operands[2]);
    if (desc_.bias) args.bias = static_cast<const float*>(operands[3]);
    args.c = static_cast<float*>(operands[y_]);
    args.workspace = workspace;
    if (desc_.accumulate && operands[y_ - 1] != operands[y_])
      std::memcpy(operands[y_], operands[y_ - 1], bytes_);
    kernel_.run(args);
  }

 private:
  static constexpr uint32_t kNumbers = 1;  // operand
  static QuantizedDesc desc_of(const plait_op_desc& d) {
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

  QuantizedDesc desc_;
  QuantizedMatmul kernel_;
  uint32_t y_;  // operand
  uint64_t bytes_;
};

}  // namespace

void add_quantized(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<Quantize>("fast", "quantize", kDevice, kFastPriority));
  out.push_back(kernel<MatmulOfQuantized>("fast", "matmul_quantized", kDevice, kFastPriority));
  out.push_back(
      kernel<Widened<MatmulOfQuantized>>("widened", "matmul_quantized", kDevice, kWidenedPriority));
}

}  // namespace plait::cpu
