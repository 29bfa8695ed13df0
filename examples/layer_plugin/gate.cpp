// acme.gate: y = x * sigmoid(slope * x), with one learned slope per feature.
//
// A layer composed of ops needs nothing else: its gradient, its kernels on every device and the
// fusion with its neighbours follow from the ops.
#include "items.hpp"

namespace {
using namespace plait;

constexpr plait_option kGate[] = {
    above(opt_real("slope", "1.0", "initial value of the learned slopes"), 0),
};

// x (B, ..., F) gives y of the same shape; the parameter `slope` has shape (F).
Value build_gate(Builder& b, const Options& o, std::span<const Value> in) {
  const Shape shape = b.shape(in[0]);
  if (shape.ndim() < 2 || !shape.is_float())
    fail(PLAIT_ERR_CONFIG, "[acme.gate] layer '" + b.scope() + "': the input is " +
                               shape.typed_text() + ", expected real numbers (samples, features)");
  const Value slope = b.parameter("slope", Shape({shape.last()}), Init::constant(o.real("slope")));
  return in[0] * sigmoid(slope * in[0]);
}

}  // namespace

void acme::add_gate(const plait::Host& host) {
  static const auto gate = layer<build_gate>(
      "acme.gate", "x * sigmoid(slope * x) with a learned slope per feature", kGate);
  host.add(gate);
}
