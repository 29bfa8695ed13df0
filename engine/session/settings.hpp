// The settings of a session, and the result of a step.
#pragma once

#include <plait/plait.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/runtime/job.hpp"

namespace plait::session {

// The result of a step over the whole global batch.
struct StepResult {
  int64_t step = 0, epoch = 0, samples = 0;
  double loss = 0;           // weighted mean; with several models their sum
  double grad_norm = 0;      // global, before clipping
  double learning_rate = 0;  // the optimizer's; of its largest group if nothing follows that one
  double seconds = 0;
  bool skipped = false, finished = false;
  int64_t tokens = 0, skipped_steps = 0;  // so far
  double grad_norm_clipped = 0;
  // Averages over the steps since the last line of metrics, see StepMeter; 0: not known.
  double mean_loss = 0, samples_per_s = 0, tokens_per_s = 0;
  double tflops = 0, tflops_full = 0, mfu = 0, mfu_full = 0;
  double loss_scale = 0;  // of the step; 0: losses are not scaled
  // Over the same steps, see MetricSums; valid until the session's next call.
  std::span<const plait_metric_value> metrics;
  // Requests of any rank when the step was launched: to stop, and to save because it is time. They
  // come with the sums of the step, so all ranks see them behind the same step.
  bool stop_agreed = false, save_agreed = false;
};

enum class Resume { kConfig, kNever, kAuto, kMust };

struct Settings {
  std::string run_dir;  // "": a new one
  bool no_files = false;
  Resume resume = Resume::kConfig;
  bool progress = false;
  std::function<bool(const StepResult&)> on_step;  // true: stop after a save
  int64_t stop_after = 0;  // run() ends behind this step, on all ranks; 0: at the end
  std::string command;
  std::vector<std::string> overrides;
  std::string resolved_toml;
  runtime::Job job;  // the job and this rank in it; a single rank by default
};

}  // namespace plait::session
