// schedule-cosine: after the warmup the learning rate falls along half a cosine to `min_ratio`.
#include "plugins/schedules/common.hpp"

namespace {
using namespace plait;

class Cosine : public schedules::Decay {
 public:
  Cosine(const Options& o, int64_t total_steps)
      : Decay(o, total_steps, "cosine", schedules::cosine) {}
};
}  // namespace

PLAIT_PLUGIN("schedule-cosine", "0.1.0", "Apache-2.0", "Cosine decay") {
  static const auto item = schedule<Cosine>("cosine", "decays along half a cosine to min_ratio",
                                            schedules::kDecayOptions);
  host.add(item);
}
