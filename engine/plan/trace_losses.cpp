// The losses of a model, added up.
#include "engine/plan/trace.hpp"

#include <algorithm>
#include <set>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {

using program::make_shape;

namespace {

// Whether v is computed from one of these inputs of the program.
bool depends_on(const Graph& g, ValueId v, const std::set<ValueId>& inputs) {
  std::vector<ValueId> left{v};
  std::set<ValueId> seen{v};
  while (!left.empty()) {
    const ValueId next = left.back();
    left.pop_back();
    if (inputs.contains(next)) return true;
    const int32_t producer = g.value(next).producer;
    if (producer < 0) continue;
    for (const ValueId in : g.ops()[static_cast<size_t>(producer)].in)
      if (seen.insert(in).second) left.push_back(in);
  }
  return false;
}

}  // namespace

bool Tracer::has_several_losses() const {
  size_t n = 0;
  for (size_t m = 0; m < plan_.models.size(); ++m)
    if (plan_.models[m].trained) n += plan_.experiment.models[m].losses.size();
  return n > 1;
}

void Tracer::trace_losses(size_t m) {
  const config::ModelConfig& model = plan_.experiment.models[m];
  const auto enter = [&](const config::LossConfig& loss) {
    graph_->scope = model.name + "." + loss.name;
  };
  std::vector<LossSums> all;
  for (const config::LossConfig& loss : model.losses) {
    enter(loss);
    trace_entry(loss, [&] { all.push_back(build_loss(loss)); });
  }
  Result& r = results_[m];
  for (const LossSums& one : all)
    if (std::find(r.weights.begin(), r.weights.end(), one.weights) == r.weights.end())
      r.weights.push_back(one.weights);
  r.is_log_likelihood = all.size() == 1 && all[0].config->weight == 1 && all[0].is_log_likelihood;
  for (const LossSums& one : all) {
    enter(*one.config);
    trace_entry(*one.config, [&] { add_loss(m, one); });
  }
}

// Losses that count the same weights are divided together, by the step or by the evaluation.
void Tracer::add_loss(size_t m, const LossSums& loss) {
  Result& r = results_[m];
  const bool trained = plan_.models[m].trained, separate = r.weights.size() > 1;
  const double factor = loss.config->weight;
  ValueId sum = factor == 1 ? loss.sum : program::scaled(*graph_, loss.sum, factor);
  if (trained && separate && training())
    sum = program::binary(*graph_, "mul", sum, factor_of(r, loss.weights));
  else
    r.weight_sum = r.weights[0];
  r.loss_sum = r.loss_sum ? program::binary(*graph_, "add", r.loss_sum, sum) : sum;
  if (!trained || !has_several_losses()) return;
  ValueId state = loss.sum;
  if (separate)
    state = graph_->apply1(
        "concat",
        {program::reshaped(*graph_, loss.sum, {1}), program::reshaped(*graph_, loss.weights, {1})},
        {program::attr("axis", int64_t{0})});
  const bool alone = plan_.experiment.models.size() == 1;
  metric_states_.push_back({"loss." + (alone ? "" : plan_.models[m].name + ".") + loss.config->name,
                            nullptr, m, state, separate, factor});
}

// The input that multiplies a loss which counts these weights. The step computes it before the
// forward pass, so the weights cannot be results of that pass.
ValueId Tracer::factor_of(Result& r, ValueId weights) {
  std::set<ValueId> parameters;
  for (const auto& [name, v] : parameters_) parameters.insert(v);
  if (depends_on(*graph_, weights, parameters))
    fail_config(
        "the weights that it counts depend on parameters, and the losses of the model count "
        "different weights, which the step must know before the forward pass; compute the weights "
        "from fields of the data, or let all losses of the model count the same ones");
  const size_t i = static_cast<size_t>(std::find(r.weights.begin(), r.weights.end(), weights) -
                                       r.weights.begin());
  while (r.factors.size() <= i)
    r.factors.push_back(graph_->persistent(
        "factor " + std::to_string(r.factors.size()) + " of " + model_ + ".losses",
        make_shape(plan_.precision.scalar, {}), {}));
  return r.factors[i];
}

}  // namespace plait::plan
