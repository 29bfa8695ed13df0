#include "engine/session/metric_sums.hpp"

#include <algorithm>
#include <limits>

#include "engine/base/plugin_call.hpp"
#include "engine/plan/layout.hpp"

namespace plait::session {

double metric_value(const plan::Plan& plan, const plan::Metric& metric, const double* state,
                    double weights) {
  if (!metric.item) {
    const double counted = metric.has_weights ? state[1] : weights;
    return counted != 0 ? state[0] / counted : std::numeric_limits<double>::quiet_NaN();
  }
  return call_plugin({plan.registry->plugin_of(metric.item), "finish", "metric", metric.item->name},
                     [&] { return metric.item->finish(state); });
}

MetricSums::MetricSums(const plan::Plan& plan) : plan_(plan), weights_(plan.models.size(), 0) {
  int64_t n = 0;
  for (const plan::Metric& m : plan.train_metrics) {
    n += m.n_state();
    values_.push_back({m.name.c_str(), std::numeric_limits<double>::quiet_NaN()});
  }
  states_.assign(static_cast<size_t>(n), 0);
  for (const plan::Model& m : plan.models)
    for (const plan::GradientNorm& norm : m.norms)
      if (!norm.adapter.empty())
        norms_.push_back(
            {&norm, "grad_norm." + (plan.models.size() == 1 ? "" : m.name + ".") + norm.adapter});
  for (const Norm& norm : norms_)
    values_.push_back({norm.name.c_str(), std::numeric_limits<double>::quiet_NaN()});
}

void MetricSums::add(const HostBuffer& results, bool begins, bool counts) {
  if (values_.empty()) return;
  if (begins) {
    std::fill(states_.begin(), states_.end(), 0);
    std::fill(weights_.begin(), weights_.end(), 0);
    any_ = false;
  }
  if (counts) {
    for (size_t m = 0; m < weights_.size(); ++m)
      if (plan_.models[m].trained) weights_[m] += results.get(plan_.models[m].weight_sum);
    size_t at = 0;
    for (const plan::Metric& m : plan_.train_metrics)
      for (int64_t i = 0; i < m.n_state(); ++i)
        states_[at++] += results.get(plan::offset_by(m.state, i, plan_.results.dtype));
  }
  any_ = any_ || counts;
  const double* state = states_.data();
  for (size_t i = 0; i < plan_.train_metrics.size(); ++i) {
    const plan::Metric& m = plan_.train_metrics[i];
    values_[i].value = any_ ? metric_value(plan_, m, state, weights_[m.model])
                            : std::numeric_limits<double>::quiet_NaN();
    state += m.n_state();
  }
  for (size_t i = 0; i < norms_.size(); ++i) {
    const plan::GradientNorm& norm = *norms_[i].of;
    const bool active = norm.weights.empty() || results.get(norm.active) > 0;
    values_[plan_.train_metrics.size() + i].value =
        counts && active ? results.get(norm.norm) : std::numeric_limits<double>::quiet_NaN();
  }
}

}  // namespace plait::session
