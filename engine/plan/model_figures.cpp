#include "engine/plan/model_figures.hpp"

#include <algorithm>

namespace plait::plan {
namespace {

// The backward pass multiplies twice for each product of the forward pass, once if its weight is
// frozen.
constexpr double kForward = 1, kForwardAndBackward = 3;

ModelFlops flops_of_step(const Plan& plan, const Tracer& traced) {
  ModelFlops sum;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    const Tracer::Result& result = traced.results()[m];
    const double passes = plan.models[m].trained ? kForwardAndBackward : kForward;
    const double left_out = plan.models[m].trained ? result.frozen : 0;
    sum.masked += passes * result.forward.masked - left_out;
    sum.full += passes * result.forward.full - left_out;
  }
  return sum;
}

int64_t tokens_of_sample(const Feed& feed) {
  int64_t most = 0;
  for (const Field& f : feed.fields) {
    const bool looked_up = std::any_of(f.index_ranges.begin(), f.index_ranges.end(),
                                       [](const IndexRange& r) { return !r.labels; });
    if (looked_up && f.shape.ndim > 1)
      most = std::max(most, program::elements(f.shape) / std::max<int64_t>(1, feed.batch));
  }
  return most;
}

}  // namespace

void note_model_figures(PlanDraft& plan, const TracedModels& traced) {
  const auto samples = static_cast<double>(std::max<int64_t>(1, plan.train_feed.batch));
  const ModelFlops step = flops_of_step(plan, *traced.train);
  plan.flops_per_sample = {step.masked / samples, step.full / samples};
  plan.tokens_per_sample = tokens_of_sample(plan.train_feed);
  for (size_t m = 0; m < plan.models.size(); ++m)
    plan.models[m].has_perplexity =
        plan.tokens_per_sample > 0 && traced.evaluate->results()[m].is_log_likelihood;
}

}  // namespace plait::plan
