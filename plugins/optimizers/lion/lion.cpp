// optimizer-lion: the sign of a momentum (Chen et al. 2023). Weight decay shrinks the parameter
// directly.
#include <plait/plugin.hpp>

namespace {
using namespace plait;

constexpr plait_option kLion[] = {
    below(at_least(opt_real("beta1", "0.9", "weight of the momentum in the update"), 0), 1),
    below(at_least(opt_real("beta2", "0.99", "decay of the momentum"), 0), 1),
};

Value build_lion(Builder& b, const Options& o, const Update& u) {
  const double beta1 = o.real("beta1"), beta2 = o.real("beta2");
  const Value m = b.state("m");
  const Value direction = sign(beta1 * m + (1 - beta1) * u.gradient);
  b.set_state("m", beta2 * m + (1 - beta2) * u.gradient);
  return u.parameter * (1.0 - u.learning_rate * u.weight_decay) - u.learning_rate * direction;
}
}  // namespace

PLAIT_PLUGIN("optimizer-lion", "0.1.0", "Apache-2.0", "Lion") {
  static const auto lion = optimizer<build_lion>(
      "lion", "the sign of a momentum; half of Adam's memory", 1e-4, 0, kLion);
  host.add(lion);
}
