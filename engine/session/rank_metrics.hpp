// Metrics of one rank: where the time of its steps goes. What is the same on all ranks, as the
// loss, is in the metrics of rank 0.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/observe/metrics.hpp"
#include "engine/observe/tensorboard.hpp"
#include "engine/plan/plan.hpp"

namespace plait::session {

// Of the last step; they need not add up: the rest is time of the host.
struct StepTimes {
  double step = 0;  // seconds, from its launch, or the end of the step before, to its results
  double wait = 0;  // for other ranks
  double data = 0;  // for samples
  double busy = 0;  // neither; 0: a device that works by itself does not tell
};

// The name by which this rank writes metrics: "rank-3", or as the first of its coordinate along an
// axis "data-1"; "": it writes none.
std::string rank_metrics_name(const plan::Plan& plan);

// metrics/NAME.ndjson in a run directory, and beside it a folder metrics/NAME for TensorBoard.
// Owner thread only. Errors of writing are told in the log, and the run continues.
class RankMetrics {
 public:
  // Errors: PLAIT_ERR_IO when the files cannot be made.
  RankMetrics(const std::string& run_dir, const std::string& name, const plan::Plan& plan,
              FileSystem& files, Log& log);
  // Steps continue behind that one: lines of later steps no longer count.
  void resume(int64_t step);
  bool continues() const { return lines_.continues(); }  // the file had lines before
  // Drops what add() has gathered since the last line: it is of steps that do not belong to the
  // next line.
  void begin() {
    sums_ = {};
    steps_ = 0;
  }
  // Does not allocate, and neither does write(), which tells the means since the last line.
  void add(const StepTimes& times);
  void write(int64_t step);

 private:
  const topology::Coordinates at_;
  const int32_t rank_;
  observe::NdjsonWriter lines_;
  observe::TensorBoardWriter events_;
  StepTimes sums_;
  int64_t steps_ = 0;
};

}  // namespace plait::session
