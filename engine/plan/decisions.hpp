// What a plan has decided, as lines of the log: for a person who looks for a fault of a run.
#pragma once

#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

// A part of the making of a plan.
struct Phase {
  std::string name;
  double seconds = 0;
};

// All lines are PLAIT_LOG_DEBUG. One on how long the plan took to make; log: may be null.
void tell_phases(const Plan& plan, const std::vector<Phase>& phases, Log* log);
// One of each program, with its kernels, and one of each kind of collective.
void tell_decisions(const Plan& plan, Log& log);

}  // namespace plait::plan
