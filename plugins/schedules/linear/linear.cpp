// schedule-linear: after the warmup the learning rate falls linearly to `min_ratio`.
#include "plugins/schedules/common.hpp"

namespace {
using namespace plait;

class Linear : public schedules::Decay {
 public:
  Linear(const Options& o, int64_t total_steps)
      : Decay(o, total_steps, "linear", schedules::linear) {}
};
}  // namespace

PLAIT_PLUGIN("schedule-linear", "0.1.0", "Apache-2.0", "Linear decay") {
  static const auto item =
      schedule<Linear>("linear", "decays linearly to min_ratio", schedules::kDecayOptions);
  host.add(item);
}
