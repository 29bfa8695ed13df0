#include "engine/session/stragglers.hpp"

#include <algorithm>

namespace plait::session {

namespace {
constexpr double kMuch = 1.5;           // times the median
constexpr double kObservedSeconds = 5;  // of steps
constexpr int64_t kObservedSteps = 20;
constexpr double kSilentSeconds = 600;
}  // namespace

Stragglers::Stragglers(const plan::Plan& plan) : plan_(plan) {
  const auto n = static_cast<size_t>(plan.busy_ranks);
  line_.seconds.assign(n, 0);
  observed_.seconds.assign(n, 0);
  sorted_.reserve(n);
}

void Stragglers::add(const HostBuffer& results) {
  double longest = 0;
  const auto busy = [&](size_t rank) {
    return results.get(plan_.results.at(plan::Plan::kStepSums + static_cast<int64_t>(rank)));
  };
  for (size_t r = 0; r < line_.seconds.size(); ++r) {
    if (busy(r) <= 0) return;  // the first step, or a device that does not tell
    longest = std::max(longest, busy(r));
  }
  if (longest <= 0) return;
  silent_ = std::max(0.0, silent_ - longest);
  for (Window* w : {&line_, &observed_}) {
    for (size_t r = 0; r < w->seconds.size(); ++r) w->seconds[r] += busy(r);
    ++w->steps;
    w->time += longest;
  }
}

void Stragglers::begin() {
  std::fill(line_.seconds.begin(), line_.seconds.end(), 0);
  line_.steps = 0;
  line_.time = 0;
}

std::optional<BusyTimes> Stragglers::times() { return times_of(line_); }

std::optional<BusyTimes> Stragglers::times_of(const Window& window) {
  // A stage of one rank has nobody to be compared with.
  if (window.steps == 0 || plan_.busy_ranks == plan_.grid.pipeline()) return std::nullopt;
  BusyTimes found;
  double most = 0;
  const auto n = static_cast<int32_t>(window.seconds.size());
  const int32_t in_stage = n / plan_.grid.pipeline();  // the ranks of a stage follow each other
  for (int32_t first = 0; first < n; first += in_stage) {
    const auto begin = window.seconds.begin() + first;
    sorted_.assign(begin, begin + in_stage);
    std::sort(sorted_.begin(), sorted_.end());
    // Of two ranks the faster one: the slower one must not excuse itself.
    const double median = sorted_[static_cast<size_t>((in_stage - 1) / 2)];
    const auto slowest = std::max_element(begin, begin + in_stage);
    if (median <= 0 || *slowest / median <= most) continue;
    most = *slowest / median;
    const double ms = 1e3 / static_cast<double>(window.steps);
    const auto rank = [&](auto at) { return static_cast<int32_t>(at - window.seconds.begin()); };
    found = {median * ms, *slowest * ms, rank(slowest),
             rank(std::find(begin, begin + in_stage, median))};
  }
  if (found.slowest < 0) return std::nullopt;
  return found;
}

std::optional<BusyTimes> Stragglers::slow() {
  if (observed_.steps < kObservedSteps || observed_.time < kObservedSeconds) return std::nullopt;
  const std::optional<BusyTimes> t = times_of(observed_);
  std::fill(observed_.seconds.begin(), observed_.seconds.end(), 0);
  observed_.steps = 0;
  observed_.time = 0;
  if (!t || t->slowest_ms < kMuch * t->median_ms || silent_ > 0) return std::nullopt;
  silent_ = kSilentSeconds;
  return t;
}

}  // namespace plait::session
