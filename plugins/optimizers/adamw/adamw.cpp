// optimizer-adamw: Adam with decoupled weight decay (Loshchilov and Hutter).
#include "plugins/optimizers/moments.hpp"

namespace {
using namespace plait;

constexpr plait_option kAdamW[] = {
    moments::kOptions[0],
    moments::kOptions[1],
    moments::kOptions[2],
    opt_bool("independent_weight_decay", "false",
             "decay by schedule_factor * weight_decay per step, independent of the learning rate"),
};

Value build_adamw(Builder& b, const Options& o, const Update& u) {
  const Value share =
      (o.flag("independent_weight_decay") ? u.schedule_factor : u.learning_rate) * u.weight_decay;
  const Value decayed = u.parameter * (1.0 - share);
  return decayed - moments::change(b, o, u, u.gradient);
}
}  // namespace

PLAIT_PLUGIN("optimizer-adamw", "0.1.0", "Apache-2.0", "AdamW") {
  static const auto adamw =
      optimizer<build_adamw>("adamw", "Adam with decoupled weight decay", 1e-3, 0.01, kAdamW);
  host.add(adamw);
}
