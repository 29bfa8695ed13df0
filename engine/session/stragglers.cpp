#include "engine/session/stragglers.hpp"

#include <algorithm>

namespace plait::session {

namespace {
constexpr double kMuch = 1.5;           // times the median
constexpr double kOften = 0.25;         // of the steps: a few long ones make no rank slow
constexpr double kObservedSeconds = 5;  // of steps
constexpr int64_t kObservedSteps = 20;
constexpr double kSilentSeconds = 600;
}  // namespace

Stragglers::Stragglers(const plan::Plan& plan) : plan_(plan) {
  const auto n = static_cast<size_t>(plan.busy_ranks);
  line_.seconds.assign(n, 0);
  observed_.seconds.assign(n, 0);
  step_.assign(n, 0);
  often_.assign(n, 0);
  sorted_.reserve(n);
}

// The middle one of times; of two the faster one: the slower one must not excuse itself.
double Stragglers::median(std::span<const double> seconds) {
  sorted_.assign(seconds.begin(), seconds.end());
  const auto middle = sorted_.begin() + static_cast<std::ptrdiff_t>((sorted_.size() - 1) / 2);
  std::nth_element(sorted_.begin(), middle, sorted_.end());
  return *middle;
}

// The ranks of each stage, which follow each other.
size_t Stragglers::in_stage() const {
  return line_.seconds.size() / static_cast<size_t>(plan_.grid.pipeline());
}

void Stragglers::add(const HostBuffer& results) {
  double longest = 0;
  for (size_t r = 0; r < step_.size(); ++r) {
    step_[r] = results.get(plan_.results.at(plan::Plan::kStepSums + static_cast<int64_t>(r)));
    if (step_[r] <= 0) return;  // the first step, or a device that does not tell
    longest = std::max(longest, step_[r]);
  }
  if (longest <= 0) return;
  const size_t n = in_stage();
  for (size_t first = 0; first < step_.size(); first += n) {
    const double much = kMuch * median({&step_[first], n});
    for (size_t r = first; r < first + n; ++r) often_[r] += step_[r] >= much ? 1 : 0;
  }
  silent_ = std::max(0.0, silent_ - longest);
  for (Window* w : {&line_, &observed_}) {
    for (size_t r = 0; r < w->seconds.size(); ++r) w->seconds[r] += step_[r];
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
  const auto n = static_cast<std::ptrdiff_t>(in_stage());
  for (auto begin = window.seconds.begin(); begin != window.seconds.end(); begin += n) {
    const double middle = median({begin, begin + n});
    const auto slowest = std::max_element(begin, begin + n);
    if (middle <= 0 || *slowest / middle <= most) continue;
    most = *slowest / middle;
    const double ms = 1e3 / static_cast<double>(window.steps);
    const auto rank = [&](auto at) { return static_cast<int32_t>(at - window.seconds.begin()); };
    found = {middle * ms, *slowest * ms, rank(slowest), rank(std::find(begin, begin + n, middle))};
  }
  if (found.slowest < 0) return std::nullopt;
  return found;
}

std::optional<BusyTimes> Stragglers::slow() {
  if (observed_.steps < kObservedSteps || observed_.time < kObservedSeconds) return std::nullopt;
  const std::optional<BusyTimes> t = times_of(observed_);
  const double often = kOften * static_cast<double>(observed_.steps);
  const bool is_often = t && static_cast<double>(often_[static_cast<size_t>(t->slowest)]) >= often;
  std::fill(often_.begin(), often_.end(), 0);
  std::fill(observed_.seconds.begin(), observed_.seconds.end(), 0);
  observed_.steps = 0;
  observed_.time = 0;
  if (!is_often || t->slowest_ms < kMuch * t->median_ms || silent_ > 0) return std::nullopt;
  silent_ = kSilentSeconds;
  return t;
}

}  // namespace plait::session
