// Metrics of training steps: sums of their states over the steps since the last line of metrics;
// and the norms of adapters' gradients in the last step.
#pragma once

#include <plait/plait.h>

#include <span>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/session/host_buffer.hpp"

namespace plait::session {

// The value of a metric, or the mean of a loss; NaN: nothing counted, as where all labels are
// ignored. state: its n_state() sums; weights: the sum of the weights of its model's loss, over the
// same samples. Errors: PLAIT_ERR_PLUGIN.
double metric_value(const plan::Plan& plan, const plan::Metric& metric, const double* state,
                    double weights);

// Owner thread only; equal on all ranks, as the sums of a step are. The plan outlives it.
class MetricSums {
 public:
  explicit MetricSums(const plan::Plan& plan);

  // Adds a step that was not skipped (`counts`), and computes the values. results: of the step;
  // begins: the steps before it belong to an earlier line. Does not allocate.
  void add(const HostBuffer& results, bool begins, bool counts);
  // In the order of Plan::train_metrics, then "grad_norm.ADAPTER" where samples choose their
  // adapter; NaN while nothing counts. Valid until the next add().
  std::span<const plait_metric_value> values() const { return values_; }

 private:
  const plan::Plan& plan_;
  struct Norm {
    const plan::GradientNorm* of;
    std::string name;
  };
  std::vector<Norm> norms_;
  std::vector<double> states_, weights_;  // states of all metrics, weights of all models
  std::vector<plait_metric_value> values_;
  bool any_ = false;
};

}  // namespace plait::session
