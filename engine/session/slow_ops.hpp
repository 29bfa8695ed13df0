// Why a rank is slow: the ops that take it longer than another rank of its stage.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/session/session_context.hpp"
#include "engine/session/stragglers.hpp"
#include "engine/session/timing.hpp"

namespace plait::session {

// Seconds by what computes, "matmul of model.linear1 (forward)".
using OpSeconds = std::vector<std::pair<std::string, double>>;

// The warning that names the slow rank. own, other: of as many steps on that rank and on the rank
// of the median; empty: not known.
std::string slow_rank_text(const topology::Grid& grid, const BusyTimes& slow, const OpSeconds& own,
                           const OpSeconds& other, int64_t steps);

// Owner thread only; all ranks make the same calls.
class SlowOps {
 public:
  explicit SlowOps(SessionContext& context) : c_(context) {}

  // The next steps are to be measured.
  void begin(const BusyTimes& slow);
  bool is_measuring() const { return left_ > 0; }
  // Makes a step, and measures it.
  template <class Step>
  auto measure(Step&& step) {
    const Timing timing(c_.executor, calls_, calls_of(c_.plan, plan::kTrainStep));
    --left_;
    return step();
  }
  // Whether all steps are measured, and report() tells what they showed.
  bool is_complete() const { return left_ == 0 && slow_.slowest >= 0; }
  // The warning, on rank 0; "" on others. Ends the measurement. Collective.
  std::string report();
  // The same of a measurement that the end of the run has cut short; not collective.
  std::string give_up();

 private:
  SessionContext& c_;
  BusyTimes slow_;
  int64_t left_ = 0;  // steps
  Timing::Calls calls_;
};

}  // namespace plait::session
