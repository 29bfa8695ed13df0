// bench.wait: a layer that sleeps where others compute, so that more ranks than there are cores can
// be measured. Forward pass, input gradient and weight gradient take `ms` a micro-batch each.
#include <plait/plugin.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace {
using namespace plait;

constexpr const char* kForward = "bench.wait";                  // x, w -> as x
constexpr const char* kInput = "bench.wait_input_gradient";     // dy -> as dy
constexpr const char* kWeights = "bench.wait_weight_gradient";  // w, dy -> as w

constexpr plait_option kOptions[] = {
    above(opt_real("ms", "1.0", "what each pass over a micro-batch takes, in milliseconds"), 0),
};

plait_error* infer(const plait_host*, const plait_op_desc* desc, plait_shape* outputs) {
  outputs[0] = desc->inputs[0];
  return nullptr;
}

plait_error* gradient(plait_builder* b, const plait_op_use* use, plait_value* d_inputs) {
  return detail::guard(detail::maker(b), [&] {
    const Builder builder(b);
    const Value w{b, use->inputs[1]}, dy{b, use->d_outputs[0]};
    const plait_attr ms = use->attrs[0];
    if (use->needs_grad[0]) d_inputs[0] = builder.op(kInput, {dy}, {ms}).id;
    if (use->needs_grad[1]) d_inputs[1] = builder.op(kWeights, {w, dy}, {ms}).id;
  });
}

// An operation a nanosecond, so that the plan simulates what is measured.
double flops(const plait_op_desc* desc) { return 1e6 * real_attr(*desc, "ms", 1); }

constexpr plait_op_item op_item(const char* name, const char* help, decltype(&gradient) rule) {
  return {sizeof(plait_op_item), name, help, 1, 0, infer, rule, flops, nullptr, 0, 0, nullptr};
}

constexpr plait_op_item kOps[] = {
    op_item(kForward, "x, after a while", gradient),
    op_item(kInput, "dy, after a while", nullptr),
    op_item(kWeights, "zeros as w, after a while", nullptr),
};

// The system wakes who sleeps up to 50 us late, which many short naps would add up to; so the last
// bit is waited out.
void sleep_until(std::chrono::steady_clock::time_point end) {
  constexpr auto kLate = std::chrono::microseconds(100);
  std::this_thread::sleep_until(end - kLate);
  while (std::chrono::steady_clock::now() < end) {
  }
}

// The first input is passed on, or zeros are.
template <bool kZeros>
class Wait {
 public:
  static bool select(const plait_op_desc& desc, plait_choice&, std::string& why) {
    why = "sleeps";
    return desc.inputs[0].dtype == PLAIT_F32;
  }
  Wait(plait_device*, const plait_op_desc& desc)
      : n_(Shape(desc.inputs[0]).count()),
        operand_(desc.n_inputs),
        nap_(std::lround(1e6 * real_attr(desc, "ms", 1))) {}
  void run(plait_queue*, void* const* operands, void*) const {
    const auto end = std::chrono::steady_clock::now() + nap_;
    const auto* x = static_cast<const float*>(operands[0]);
    auto* y = static_cast<float*>(operands[operand_]);
    if (kZeros)
      std::fill_n(y, n_, 0.0f);
    else
      std::copy_n(x, n_, y);
    sleep_until(end);
  }

 private:
  int64_t n_;
  size_t operand_;
  std::chrono::nanoseconds nap_;
};

// x (B, ...) gives y of the same shape; `weight` is there to have a gradient.
Value build(Builder& b, const Options& o, std::span<const Value> in) {
  const Value w = b.parameter("weight", Shape({1}), Init::constant(0));
  return b.op(kForward, {in[0], w}, {attr("ms", o.real("ms"))});
}

}  // namespace

PLAIT_PLUGIN("bench-wait", "1.0.0", "Apache-2.0", "A layer that sleeps where others compute") {
  static const auto item = layer<build>("bench.wait", "sleeps where others compute", kOptions);
  static const plait_kernel_item kernels[] = {
      kernel<Wait<false>>("bench.wait_f32", kForward, "cpu", 0),
      kernel<Wait<false>>("bench.wait_input_f32", kInput, "cpu", 0),
      kernel<Wait<true>>("bench.wait_weights_f32", kWeights, "cpu", 0)};
  for (const auto& op : kOps) host.add(op);
  for (const auto& k : kernels) host.add(k);
  host.add(item);
}
