// optimizer-adam: Adam with weight decay added to the gradient (L2). See adamw for decoupled weight
// decay.
#include "plugins/optimizers/moments.hpp"

namespace {
using namespace plait;

Value build_adam(Builder& b, const Options& o, const Update& u) {
  return u.parameter - moments::change(b, o, u, u.gradient + u.weight_decay * u.parameter);
}
}  // namespace

PLAIT_PLUGIN("optimizer-adam", "0.1.0", "Apache-2.0", "Adam") {
  static const auto adam = optimizer<build_adam>(
      "adam", "Adam; weight decay is added to the gradient", 1e-3, 0, moments::kOptions);
  host.add(adam);
}
