// acme.softsign: y = x / (1 + |x|), as an op of its own with a kernel for the devices `cpu` and `reference`.
//
// An op is three things: a shape rule, a gradient rule written in ops, and kernels. Ops and layers of a third party carry a dot
// in their name, so that they never collide with the engine's.
#include <cmath>

#include "items.hpp"

namespace {
using namespace plait;

constexpr const char* kOp = "acme.softsign";

plait_error* infer(const plait_host* host, const plait_op_desc* desc, plait_shape* outputs) {
  if (desc->n_inputs != 1 || desc->inputs[0].dtype != PLAIT_F32)
    return host->error_new(PLAIT_ERR_INVALID, "[acme.softsign] expected one input of type f32",
                           PLAIT_NTS, nullptr);
  outputs[0] = desc->inputs[0];
  return nullptr;
}

// dx = dy / (1 + |x|)^2
plait_error* gradient(plait_builder* b, const plait_op_use* use, plait_value* d_inputs) {
  return detail::guard(detail::maker(b), [&] {
    const Value x{b, use->inputs[0]}, dy{b, use->d_outputs[0]};
    const Value size = 1.0 + abs(x);
    d_inputs[0] = (dy / (size * size)).id;
  });
}

// |x|, the sum and the quotient, for each element.
double flops(const plait_op_desc* desc) { return 3.0 * Shape(desc->inputs[0]).count(); }

constexpr plait_op_item kItem = {
    sizeof(plait_op_item), kOp, "x / (1 + |x|), element by element", 1, 0, infer, gradient, flops};

// Elements are computed in `Real`: float for speed, double where the device is the yardstick.
template <class Real>
class Softsign {
 public:
  static bool select(const plait_op_desc& desc, plait_choice&, std::string& why) {
    why = "plain loop";
    return desc.inputs[0].dtype == PLAIT_F32;
  }
  // Once per use, when the session opens. What run() needs is worked out here.
  Softsign(plait_device*, const plait_op_desc& desc) : n_(Shape(desc.inputs[0]).count()) {}
  // Every step: no allocation, no lock. Operands are the inputs, then the outputs.
  void run(plait_queue*, void* const* operands, void*) const {
    const auto* x = static_cast<const float*>(operands[0]);
    auto* y = static_cast<float*>(operands[1]);
    for (int64_t i = 0; i < n_; ++i)
      y[i] = static_cast<float>(Real{x[i]} / (1 + std::abs(Real{x[i]})));
  }

 private:
  int64_t n_;
};

Value build_softsign(Builder& b, const Options&, std::span<const Value> in) {
  return b.op(kOp, {in[0]});
}

}  // namespace

void acme::add_softsign(const plait::Host& host) {
  static const auto item = layer<build_softsign>(kOp, "x / (1 + |x|)");
  static const auto on_cpu = kernel<Softsign<float>>("acme.softsign_f32", kOp, "cpu", 0);
  static const auto on_reference =
      kernel<Softsign<double>>("acme.softsign_f64", kOp, "reference", 0);
  host.add(kItem);
  host.add(on_cpu);
  host.add(on_reference);
  host.add(item);
}
