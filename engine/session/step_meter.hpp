// Rates and means of steps over the interval between two lines of metrics.
#pragma once

#include <cstdint>

#include "engine/session/settings.hpp"

namespace plait::session {

// What rates count by, equal on all ranks.
struct MeterUnits {
  int64_t log_every = 1;
  int64_t tokens_per_sample = 0;                           // 0: the model reads no tokens
  double flops_per_sample = 0, full_flops_per_sample = 0;  // of all ranks together
};

// Owner thread only.
class StepMeter {
 public:
  explicit StepMeter(const MeterUnits& units) : units_(units) {}

  // When a step began and ended, in nanoseconds, and its samples without padding.
  struct Step {
    uint64_t begin_ns = 0, end_ns = 0;
    int64_t samples = 0;
  };
  // Adds a step whose other results are known, and sets the averages of `result`.
  // peak_flops: of all ranks together, per second; 0: not known.
  // An interval ends with the step that has a line of metrics: every log_every-th, one that was
  // skipped, and the last.
  // Returns whether the step begins an interval.
  bool add(const Step& step, double peak_flops, StepResult& result);
  // What lies between the last step and the next does not count as time of steps.
  void pause() { continues_ = false; }
  // Inside of run() one step follows the other: what the host does between them is part of them.
  void follow(bool yes) {
    follows_ = yes;
    pause();
  }
  // Forgets the interval: the next step does not continue it.
  void restart();
  // Of all steps so far, by the same rule.
  double total_seconds() const { return total_seconds_; }

 private:
  MeterUnits units_;
  double total_seconds_ = 0, seconds_ = 0, loss_ = 0;
  int64_t samples_ = 0, finite_ = 0;
  uint64_t last_end_ns_ = 0;
  bool follows_ = false, continues_ = false, ended_ = true;
};

}  // namespace plait::session
