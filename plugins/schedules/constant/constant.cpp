// schedule-constant: the full learning rate, after delay and warmup.
#include "plugins/schedules/common.hpp"

namespace {
using namespace plait;

constexpr plait_option kOptions[] = {schedules::kWarmup, schedules::kDelay};

class Constant {
 public:
  Constant(const Options& o, int64_t) : start_(o) {}
  double factor(int64_t step) const noexcept {
    return step <= start_.end() ? start_.factor(step) : 1;
  }

 private:
  schedules::Start start_;
};
}  // namespace

PLAIT_PLUGIN("schedule-constant", "0.1.0", "Apache-2.0", "Constant learning rate") {
  static const auto constant =
      schedule<Constant>("constant", "keeps the learning rate constant", kOptions);
  host.add(constant);
}
