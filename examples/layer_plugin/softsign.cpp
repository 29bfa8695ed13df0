// acme.softsign: y = x / (1 + |x|), as an op of its own with a kernel for the devices `cpu` and
// `reference`.
//
// An op is a shape rule, a gradient rule written in ops, a sharding rule where ranks may share its
// work, and kernels. Ops and layers of a third party carry a dot in their name, so that they never
// collide with the engine's.
#include <cmath>

#include "items.hpp"

namespace {
using namespace plait;

constexpr const char* kOp = "acme.softsign";

struct SoftsignOp {
  static constexpr uint32_t kOutputs = 1;

  static std::vector<Shape> infer(const plait_op_desc& desc) {
    if (desc.n_inputs != 1 || desc.inputs[0].dtype != PLAIT_F32)
      fail(PLAIT_ERR_INVALID, "[acme.softsign] expected one input of type f32");
    return {Shape(desc.inputs[0])};
  }

  // dx = dy / (1 + |x|)^2
  static void gradient(const OpUse& use) {
    const Value size = 1.0 + abs(use.input(0));
    use.set(0, use.d_output() / (size * size));
  }

  // |x|, the sum and the quotient, for each element.
  static double flops(const plait_op_desc& desc) { return 3.0 * Shape(desc.inputs[0]).count(); }

  // Tensor ranks that have a shard of x make that shard of y; 0 stays 0.
  static bool shard(ShardUse& use) {
    use.keeps_zeros();
    return use.elementwise();
  }
};

// Elements are computed in `Real`: float for speed, double on the reference device.
template <class Real>
class Softsign {
 public:
  static bool select(const plait_op_desc& desc, plait_choice&, std::string& why) {
    why = "plain loop";
    return desc.inputs[0].dtype == PLAIT_F32;
  }
  // Once per use, when the session opens. Computes everything that run() needs.
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
  static const plait_op_item op = op_item<SoftsignOp>(kOp, "x / (1 + |x|), element by element");
  host.add(op);
  host.add(on_cpu);
  host.add(on_reference);
  host.add(item);
}
