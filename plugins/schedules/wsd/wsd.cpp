// schedule-wsd: warmup, stable, decay. The full learning rate until `decay_steps` steps before the
// end, then a decay to `min_ratio`.
#include "plugins/schedules/common.hpp"

namespace {
using namespace plait;

constexpr plait_option kOptions[] = {
    schedules::kWarmup,
    schedules::kDelay,
    schedules::kSteps,
    schedules::kMinimum,
    in_unit(
        at_least(opt_int("decay_steps", "0", "length of the final decay; 0: a fifth of all steps"),
                 0),
        "steps"),
    opt_choice("decay_style", "\"linear\"", "linear|cosine|sqrt", "shape of the decay"),
};

schedules::DecayShape shape_of(const Options& o) {
  const std::string_view shape = o.text("decay_style");
  return shape == "cosine" ? schedules::cosine
         : shape == "sqrt" ? schedules::root
                           : schedules::linear;
}

class WarmupStableDecay {
 public:
  WarmupStableDecay(const Options& o, int64_t total_steps)
      : start_(o),
        until_(schedules::last_step(o, total_steps, start_, "wsd")),
        minimum_(o.real("min_ratio")),
        shape_(shape_of(o)) {
    const int64_t given = o.integer("decay_steps"), cooldown = given ? given : until_ / 5;
    // If the run is too short for both, the decay begins where the warmup ends.
    from_ = std::max(start_.end(), cooldown < until_ ? until_ - cooldown : 0);
  }
  double factor(int64_t step) const noexcept {
    return step <= start_.end() ? start_.factor(step)
                                : schedules::decay(step, from_, until_, minimum_, shape_);
  }

 private:
  schedules::Start start_;
  int64_t until_, from_ = 0;
  double minimum_;
  schedules::DecayShape shape_;
};
}  // namespace

PLAIT_PLUGIN("schedule-wsd", "0.1.0", "Apache-2.0", "Warmup, stable, decay") {
  static const auto wsd = schedule<WarmupStableDecay>(
      "wsd", "the full learning rate, then a decay in the last steps", kOptions);
  host.add(wsd);
}
