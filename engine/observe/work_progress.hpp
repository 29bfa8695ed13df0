// The progress of work beside the steps: nothing while it is short, then a line that is redrawn on
// a terminal and erased at the end, or an occasional plain line elsewhere.
#pragma once

#include <cstdint>
#include <string>

#include "engine/observe/progress.hpp"

namespace plait::observe {

// One thread. A bar of the training that is on the screen is drawn over, and redraws itself later.
class WorkProgress {
 public:
  // what: "evaluating [data.eval]"; parts: what `all` counts, "batches". On a terminal the first
  // line comes after `after_s`, elsewhere after config.plain_every_s.
  WorkProgress(ProgressConfig config, Progress::Sink sink, std::string what, const char* parts,
               int64_t all, double after_s = 1);
  // Writes to standard error.
  WorkProgress(ProgressConfig config, std::string what, const char* parts, int64_t all);
  ~WorkProgress();
  WorkProgress(const WorkProgress&) = delete;
  WorkProgress& operator=(const WorkProgress&) = delete;

  // Cheap when it is too early to redraw.
  void update(int64_t done);

 private:
  const ProgressConfig config_;
  const Progress::Sink sink_;
  const std::string what_;
  const char* const parts_;
  const int64_t all_;
  const uint64_t began_;
  uint64_t due_;
  bool shown_ = false;
};

}  // namespace plait::observe
