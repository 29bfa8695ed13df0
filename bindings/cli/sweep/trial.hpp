// A trial of a sweep: its run, and what became of it.
#pragma once

#include <cmath>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {

// What a run of the sweep is called that --halving has not continued.
inline constexpr char kDropped[] = "dropped";

struct Trial {
  std::vector<std::string> overrides;  // of the axes
  std::string path;                    // of its run directory
  RunRecord run;
  double value = std::nan("");  // of the metric
  double loss = std::nan("");   // the mean training loss since the line before
  int code = 0;                 // of its newest process
  bool stopped = false;         // which was asked to end, by the sweep
  bool dropped = false;         // by --halving
  std::string log = {};         // what its processes have printed
  // It ended for a reason of its own; one that was halted or not begun has not failed.
  bool failed() const {
    const std::string& s = run.state;
    return s == "failed" || s == "lost" || (code != kOk && code != kInterrupted && !stopped);
  }
  // Whether its newest lines have a value of that name, nan included.
  bool knows(const std::string& name) const;
  // What became of it, for a user of the sweep.
  std::string state() const;
  // Why it failed: "", if it has not.
  std::string reason() const;
};

}  // namespace plait::cli
