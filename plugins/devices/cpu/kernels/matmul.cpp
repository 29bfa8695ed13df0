// The op `matmul` on f32, bf16 and f16: hands the product to the component in matmul/.
#include "plugins/devices/cpu/matmul/matmul.hpp"

#include <algorithm>
#include <cstring>

#include "kit/dtype.hpp"
#include "kit/ops/matmul.hpp"
#include "plugins/devices/cpu/kernels/fused_activation.hpp"
#include "plugins/devices/cpu/kernels/kernels.hpp"
#include "plugins/devices/cpu/kernels/widened.hpp"

namespace plait::cpu {
namespace {

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
  m.activation = fused_activation(p.activation);
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

bool is_half(const plait_shape& s) { return s.dtype == PLAIT_BF16 || s.dtype == PLAIT_F16; }

// Columns of y that are made at a time: as f32 about 16 MiB of them, and at least 512. The last
// block has 256 at least, since the blocked kernels take no fewer.
int64_t columns_at_a_time(const MatmulDesc& m, bool narrow) {
  constexpr int64_t kElements = (16 << 20) / sizeof(float), kFewest = 512, kMultiple = 64,
                    kFewestLast = 256;
  const bool parts = narrow && m.transpose_b && m.batch == 1 && !m.accumulate && !m.squares;
  if (!parts || m.m == 0) return m.n;
  const int64_t fit = std::max(kElements / m.m, kFewest), blocks = (m.n + fit - 1) / fit;
  if (blocks <= 1) return m.n;
  int64_t columns = ((m.n + blocks - 1) / blocks + kMultiple - 1) / kMultiple * kMultiple;
  while (m.n % columns > 0 && m.n % columns < kFewestLast) columns += kMultiple;
  return std::min(columns, m.n);
}

Half half_of(const plait_shape& s) {
  return s.dtype == PLAIT_BF16 ? Half::bf16 : s.dtype == PLAIT_F16 ? Half::f16 : Half::none;
}

// The machine's own product of bf16, else the blocked kernel that widens what it packs.
KernelChoice choose_half(const MatmulDesc& m) {
  KernelChoice dot = choose_dot(m);
  if (!dot.kernel.empty()) return dot;
  KernelChoice widening = choose_widening(m);
  widening.why = dot.why + (widening.why.empty() ? "" : "; " + widening.why);
  return widening;
}

constexpr int64_t kManySummands = 8192;

// Large products of 16-bit operands, by choose_half(). Where that cannot write a 16-bit y itself, y
// is made in the workspace as f32 and narrowed from there; a large one, as logits are, a block of
// columns at a time, which are rows of the weights.
class HalfMatmul {
 public:
  static bool select(const plait_op_desc& d, plait_choice& choice, std::string& why) {
    const HalfMatmul m(d);
    if (!is_half(d.inputs[0])) {
      why = "takes 16-bit floats";
      return false;
    }
    for (uint32_t i = 2; i < d.n_inputs + d.n_outputs; ++i)
      if (const plait_shape& s = i < d.n_inputs ? d.inputs[i] : d.outputs[i - d.n_inputs];
          s.dtype != PLAIT_F32 && !m.is_y(d, i)) {
        why = std::string("takes a bias of f32 only, found ") + kit::dtype_name(s.dtype);
        return false;
      }
    const KernelChoice c = choose_half(m.block_);
    if (c.kernel.empty()) {
      why = c.why;
      return false;
    }
    choice.workspace = c.workspace_bytes + m.wide_bytes_;
    if (m.rest_.n > 0) {
      const KernelChoice rest = choose_half(m.rest_);
      if (rest.kernel.empty()) {
        why = rest.why;
        return false;
      }
      choice.workspace = std::max(choice.workspace, rest.workspace_bytes + m.wide_bytes_);
    }
    why = c.kernel;
    if (choose_dot(m.block_).kernel.empty())
      why += std::string(", ") + kit::dtype_name(d.inputs[0].dtype) +
             " widened to f32 while packed, so no faster than f32";
    if (!c.why.empty()) why += "; " + c.why;
    return true;
  }
  HalfMatmul(plait_device*, const plait_op_desc& d) : HalfMatmul(d) {
    kernel_ = make_matmul(block_, choose_half(block_).kernel);
    if (rest_.n > 0) rest_kernel_ = make_matmul(rest_, choose_half(rest_).kernel);
  }
  void run(plait_queue*, void* const* operands, void* workspace) const {
    MatmulArgs args;
    args.a = static_cast<const float*>(operands[0]);
    args.b = static_cast<const float*>(operands[1]);
    args.bias = desc_.bias ? static_cast<const float*>(operands[2]) : nullptr;
    args.c = static_cast<float*>(wide_bytes_ ? workspace : operands[y_]);
    args.squares = desc_.squares ? static_cast<float*>(operands[y_ + 1]) : nullptr;
    args.workspace = static_cast<char*>(workspace) + wide_bytes_;
    if (desc_.accumulate && wide_bytes_)
      convert(widen_function(y_type_), static_cast<const uint16_t*>(operands[y_ - 1]), args.c);
    else if (desc_.accumulate && operands[y_ - 1] != operands[y_])
      std::memcpy(operands[y_], operands[y_ - 1], y_bytes_);
    if (block_.n < desc_.n) return run_columns(args, static_cast<uint16_t*>(operands[y_]));
    kernel_->run(args);
    if (wide_bytes_)
      convert(narrow_function(y_type_), args.c, static_cast<uint16_t*>(operands[y_]));
  }

 private:
  void run_columns(MatmulArgs args, uint16_t* y) const {
    const auto* b = reinterpret_cast<const uint16_t*>(args.b);
    const float* bias = args.bias;
    const NarrowFunction narrow = narrow_function(y_type_);
    for (int64_t at = 0; at < desc_.n; at += block_.n) {
      const int64_t columns = std::min(block_.n, desc_.n - at);
      args.b = reinterpret_cast<const float*>(b + at * desc_.k);
      args.bias = bias ? bias + at : nullptr;
      (columns == block_.n ? kernel_ : rest_kernel_)->run(args);
      in_parallel(threads_, desc_.m, [&](int64_t first, int64_t last) {
        for (int64_t r = first; r < last; ++r)
          narrow(args.c + r * columns, y + r * desc_.n + at, columns);
      });
    }
  }
  explicit HalfMatmul(const plait_op_desc& d) : desc_(desc_of(d)), y_(d.n_inputs) {
    desc_.widen_a = desc_.widen_b = widen_function(d.inputs[0].dtype);
    desc_.half_a = half_of(d.inputs[0]);
    desc_.half_b = half_of(d.inputs[1]);
    y_type_ = d.outputs[0].dtype;
    n_ = kit::elements(d.outputs[0]);
    y_bytes_ = kit::bytes(d.outputs[0]);
    MatmulDesc direct = desc_;
    direct.half_c = half_of(d.outputs[0]);
    const std::string kernel = choose_dot(direct).kernel;
    // Rounding a result of so many summands costs less than another kernel.
    const bool rounds = desc_.k >= kManySummands && choose_dot(desc_).kernel != kernel;
    if (!kernel.empty() && !rounds) desc_ = direct;
    const bool narrows = desc_.half_c != half_of(d.outputs[0]);
    block_ = rest_ = desc_;
    block_.n = columns_at_a_time(desc_, narrows);
    rest_.n = block_.n > 0 ? desc_.n % block_.n : 0;
    block_.batch_stride_c = block_.m * block_.n;
    rest_.batch_stride_c = rest_.m * rest_.n;
    if (narrows)
      wide_bytes_ =
          (static_cast<uint64_t>(desc_.batch * desc_.m * block_.n) * sizeof(float) + 63) / 64 * 64;
    constexpr double kNanosecondsPerElement = 0.15;
    threads_ = choose_num_threads(d.threads, static_cast<double>(n_) * kNanosecondsPerElement,
                                  n_ / 1024 + 1);
  }
  // Whether an operand has the type of y: y itself, and what it is added to.
  bool is_y(const plait_op_desc& d, uint32_t i) const {
    return i == y_ || (desc_.accumulate && i + 1 == d.n_inputs);
  }
  template <class F, class From, class To>
  void convert(F f, const From* from, To* to) const {
    in_parallel(threads_, n_,
                [&](int64_t first, int64_t last) { f(from + first, to + first, last - first); });
  }

  MatmulDesc desc_, block_, rest_;  // all columns, a block of them, the last block
  std::unique_ptr<MatmulKernel> kernel_, rest_kernel_;
  uint32_t y_;           // operand
  uint32_t y_type_ = 0;  // of y
  int64_t n_ = 0;        // elements of y
  uint64_t y_bytes_ = 0;
  uint64_t wide_bytes_ = 0;  // of y in f32
  int threads_ = 1;
};

}  // namespace

void add_matmul(std::vector<plait_kernel_item>& out) {
  out.push_back(kernel<CpuMatmul>("fast", "matmul", kDevice, kFastPriority));
  out.push_back(kernel<HalfMatmul>("half", "matmul", kDevice, kFastPriority - 1));
  out.push_back(kernel<Widened<CpuMatmul>>("widened", "matmul", kDevice, kWidenedPriority));
}

}  // namespace plait::cpu
