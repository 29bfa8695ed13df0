// Figures of tensors behind a step: see [statistics].
#pragma once

#include <string>
#include <vector>

#include "engine/observe/metrics.hpp"
#include "engine/session/host_buffer.hpp"
#include "engine/session/session_context.hpp"
#include "engine/session/step_runner.hpp"

namespace plait::session {

// Owner thread only; every rank makes the same calls.
class StatisticsRecorder {
 public:
  // Of a plan with the entry point plan::kStatistics.
  StatisticsRecorder(SessionContext& context, StepRunner& steps);

  // Behind a step, before anything else is launched. Collective. Rank 0 writes a line for each
  // tensor to statistics.ndjson, and the figures to TensorBoard: "statistics/TENSOR/FIGURE".
  // Gradients are as the step left them, before clipping. Parameters are as they are behind it, and
  // with them the outputs of layers are computed again, for the first micro-batch.
  void record(const StepResult& result);

 private:
  void write_scales(const StepResult& result);
  void write_figures(const StepResult& result);

  SessionContext& c_;
  StepRunner& steps_;
  const plan::EntryPoint& entry_;
  HostBuffer sums_, extremes_, scales_;
  std::vector<observe::NamedValue> values_;  // of a tensor
  std::vector<std::string> tags_;            // by tensor and figure
  const int64_t first_step_;
};

}  // namespace plait::session
