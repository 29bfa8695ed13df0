// Code shared by the schedules. Steps s count from 1; D is `delay_steps`, W `warmup_steps`, N the
// step at which the decay ends.
//
//   s <= D          0
//   s <= D + W      (s - D)/W
//   s <= N          minimum + (1 - minimum)·shape(t), t = (s - D - W)/(N - D - W)
//   s > N           minimum
//
// A run shorter than D + W ends inside the warmup.
#pragma once

#include <plait/plugin.hpp>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>

namespace plait::schedules {

inline constexpr plait_option kDelay = in_unit(
    at_least(opt_int("delay_steps", "0", "steps with learning rate 0 before the warmup"), 0),
    "steps");
inline constexpr plait_option kWarmup = in_unit(
    at_least(opt_int("warmup_steps", "0", "steps of linear warmup to the full learning rate"), 0),
    "steps");
inline constexpr plait_option kSteps = in_unit(
    at_least(
        opt_int("total_steps", "0",
                "step at which the decay ends, including delay and warmup; 0: the last of the run"),
        0),
    "steps");
inline constexpr plait_option kMinimum = at_most(
    at_least(opt_real("min_ratio", "0.0", "final learning rate as a fraction of the full one"), 0),
    1);

// Delay and warmup.
class Start {
 public:
  explicit Start(const Options& o)
      : delay_(o.integer("delay_steps")), warmup_(o.integer("warmup_steps")) {
    if (__builtin_add_overflow(delay_, warmup_, &end_))
      fail(PLAIT_ERR_CONFIG,
           std::string("[schedule] delay_steps + warmup_steps is more than 2^63 steps; set at ") +
               o.origin("warmup_steps"));
  }
  int64_t delay() const { return delay_; }
  int64_t warmup() const { return warmup_; }
  int64_t end() const { return end_; }
  // Valid for steps up to end().
  double factor(int64_t step) const {
    return step <= delay_ ? 0 : static_cast<double>(step - delay_) / static_cast<double>(warmup_);
  }

 private:
  int64_t delay_, warmup_, end_ = 0;
};

// The step at which a decay ends: the option `total_steps`, or the run's last step.
inline int64_t last_step(const Options& o, int64_t total_steps, const Start& start,
                         const std::string& name) {
  const int64_t steps = o.integer("total_steps");
  if (steps == 0 && total_steps <= 0)
    fail(PLAIT_ERR_CONFIG,
         "[" + name + "] the length of the run is unknown; give the schedule `total_steps`");
  if (steps != 0 && steps < start.end())
    fail(PLAIT_ERR_CONFIG,
         "[" + name + "] total_steps is " + std::to_string(steps) +
             ", expected at least delay_steps + warmup_steps = " + std::to_string(start.end()) +
             ", which it includes; set at " + o.origin("total_steps"));
  return steps != 0 ? steps : total_steps;
}

// Shapes of a decay: 1 at t = 0, 0 at t = 1.
inline double linear(double t) { return 1 - t; }
inline double cosine(double t) { return (1 + std::cos(std::numbers::pi * t)) / 2; }
inline double root(double t) { return 1 - std::sqrt(t); }

using DecayShape = double (*)(double t);

// Falls from 1 at step `from` to `min_ratio` at step `until`, and stays there.
inline double decay(int64_t step, int64_t from, int64_t until, double minimum, DecayShape shape) {
  if (step <= from) return 1;
  if (step >= until) return minimum;
  const double t = static_cast<double>(step - from) / static_cast<double>(until - from);
  return minimum + (1 - minimum) * shape(t);
}

// Warmup, then one decay over all remaining steps.
class Decay {
 public:
  Decay(const Options& o, int64_t total_steps, const char* name, DecayShape shape)
      : start_(o),
        until_(last_step(o, total_steps, start_, name)),
        minimum_(o.real("min_ratio")),
        shape_(shape) {}
  double factor(int64_t step) const noexcept {
    return step <= start_.end() ? start_.factor(step)
                                : decay(step, start_.end(), until_, minimum_, shape_);
  }

 private:
  Start start_;
  int64_t until_;
  double minimum_;
  DecayShape shape_;
};

inline constexpr plait_option kDecayOptions[] = {kWarmup, kDelay, kSteps, kMinimum};

}  // namespace plait::schedules
