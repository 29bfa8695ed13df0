// schedule-inverse_sqrt: sqrt(W/(s - D)) after the warmup, with W at least 1; never below
// `min_ratio`; it has no end.
#include "plugins/schedules/common.hpp"

namespace {
using namespace plait;

constexpr plait_option kOptions[] = {schedules::kWarmup, schedules::kDelay, schedules::kMinimum};

class InverseSqrt {
 public:
  InverseSqrt(const Options& o, int64_t)
      : start_(o),
        scale_(static_cast<double>(std::max<int64_t>(start_.warmup(), 1))),
        minimum_(o.real("min_ratio")) {}
  double factor(int64_t step) const noexcept {
    if (step <= start_.end()) return start_.factor(step);
    return std::max(minimum_, std::sqrt(scale_ / static_cast<double>(step - start_.delay())));
  }

 private:
  schedules::Start start_;
  double scale_, minimum_;
};
}  // namespace

PLAIT_PLUGIN("schedule-inverse_sqrt", "0.1.0", "Apache-2.0", "Inverse square root decay") {
  static const auto item = schedule<InverseSqrt>(
      "inverse_sqrt", "decays with the square root of the steps since the warmup", kOptions);
  host.add(item);
}
