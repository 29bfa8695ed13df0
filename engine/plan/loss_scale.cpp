#include "engine/plan/loss_scale.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "engine/program/op_def.hpp"

namespace plait::plan {

using program::binary;
using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

ValueId scaler_number(Graph& g, const Plan& plan, const char* name, int64_t i) {
  return g.persistent(name, make_shape(plan.scaler.dtype, {}), plan.scaler.at(i));
}

// The elements that are added up to a scalar; of several sums the most.
int64_t summed_elements(const Graph& g, ValueId scalar) {
  int64_t most = 1;
  std::vector<ValueId> left{scalar};
  std::set<ValueId> seen{scalar};
  while (!left.empty()) {
    const int32_t producer = g.value(left.back()).producer;
    left.pop_back();
    if (producer < 0) continue;
    for (const ValueId in : g.ops()[static_cast<size_t>(producer)].in) {
      if (!g.value(in).requires_grad || !seen.insert(in).second) continue;
      const int64_t n = program::elements(g.shape(in));
      most = std::max(most, n);
      if (n == 1) left.push_back(in);
    }
  }
  return most;
}

}  // namespace

void make_loss_scale(PlanDraft& plan) {
  if (plan.precision.low != PLAIT_F16) return;
  plan.scaler = plan.storage.add_flat("loss scale", Category::kOptimizer, plan.precision.scalar);
  plan.storage.append(plan.scaler, kScalerNumbers);
  plan.scaler_after = plan.storage.append(plan.results, kScalerNumbers);
}

void note_loss_rows(PlanDraft& plan, const Tracer& traced) {
  int64_t rows = 1;
  for (const Tracer::Result& r : traced.results())
    if (r.loss_sum) rows = std::max(rows, summed_elements(traced.graph(), r.loss_sum));
  const double all = static_cast<double>(rows) * static_cast<double>(plan.experiment.batch.global) /
                     static_cast<double>(plan.experiment.batch.micro);
  plan.loss_rows = std::exp2(std::round(std::log2(std::max(all, 1.0))));
}

ValueId loss_seed(Graph& g, const Plan& plan) {
  return plan.scaler.exists() ? scaler_number(g, plan, "loss seed", 3) : 0;
}

void update_loss_scale(Graph& g, const Plan& plan, ValueId finite) {
  if (!plan.scaler.exists()) return;
  g.scope = "loss_scale";
  const config::PrecisionConfig& c = plan.experiment.precision;
  constexpr double kMost = 0x1p100;
  const auto number = [&](double v) { return g.constant(v); };
  const auto select = [&](ValueId condition, ValueId a, ValueId b) {
    return g.apply1("select", {condition, a, b});
  };
  const ValueId scale = scaler_number(g, plan, "loss scale", 0),
                good = scaler_number(g, plan, "good steps", 1),
                left = scaler_number(g, plan, "overflows left", 2),
                seed = scaler_number(g, plan, "loss seed", 3);
  const auto hysteresis = static_cast<double>(c.scale_hysteresis);
  const ValueId bears = binary(g, "lt", number(1), left);
  const ValueId shrunk =
      binary(g, "max", binary(g, "mul", scale, number(1 / c.scale_factor)), number(c.scale_min));
  const ValueId more = binary(g, "add", good, number(1));
  const ValueId grows = binary(g, "le", number(static_cast<double>(c.scale_window)), more);
  const ValueId grown =
      binary(g, "min", binary(g, "mul", scale, number(c.scale_factor)), number(kMost));
  const ValueId full = binary(g, "add", binary(g, "mul", left, number(0)), number(hysteresis));
  const ValueId zero = binary(g, "mul", more, number(0));
  const ValueId next_scale =
      select(finite, select(grows, grown, scale), select(bears, scale, shrunk));
  const ValueId next[kScalerNumbers] = {
      next_scale, select(finite, select(grows, zero, more), zero),
      select(finite, c.scale_consecutive ? full : select(grows, full, left),
             select(bears, binary(g, "sub", left, number(1)), left)),
      binary(g, "mul", next_scale, number(1 / plan.loss_rows))};
  const ValueId old[kScalerNumbers] = {scale, good, left, seed};
  for (int64_t i = 0; i < kScalerNumbers; ++i)
    g.bind(next[i], offset_by(plan.scaler_after, i, plan.results.dtype));
  for (int64_t i = 0; i < kScalerNumbers; ++i) g.assign(old[i], next[i]);
}

}  // namespace plait::plan
