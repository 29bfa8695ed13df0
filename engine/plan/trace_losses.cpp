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

std::vector<Tracer::LossSums> Tracer::build_losses(size_t m) {
  std::vector<LossSums> all;
  for (const config::LossConfig& loss : plan_.experiment.models[m].losses) {
    graph_->scope = model_ + "." + loss.name;
    trace_entry(loss, [&] { all.push_back(build_loss(loss)); });
  }
  return all;
}

// Where samples choose their adapter, a step minimises the losses of the adapters, each over its
// own samples: losses that count different weights. The rows of a loss are computed once, as the
// graph has equal applications once.
void Tracer::trace_losses(size_t m) {
  const std::vector<LossSums> all = build_losses(m);
  std::vector<LossSums> of_adapters, terms = terms_of(m);
  for_each_adapter(m, [&](const std::string& adapter) {
    for (LossSums& one : build_losses(m)) {
      one.adapter = adapter;
      of_adapters.push_back(one);
    }
  });
  Result& r = results_[m];
  r.is_log_likelihood = all.size() == 1 && all[0].factor == 1 && all[0].is_log_likelihood;
  const bool trained = plan_.models[m].trained, by_adapter = !of_adapters.empty();
  std::vector<LossSums> added = by_adapter && trained && training() ? of_adapters : all;
  const auto count = [&](const LossSums& one) {
    if (std::find(r.weights.begin(), r.weights.end(), one.weights) == r.weights.end())
      r.weights.push_back(one.weights);
  };
  for (const LossSums& one : added) count(one);
  for (LossSums& one : terms) {
    one.weights = known_weights(r.weights, one.weights);
    count(one);
    added.push_back(one);
  }
  for (const LossSums& one : added) {
    graph_->scope = model_ + "." + one.name;
    trace_entry(*one.entry, [&] { add_loss(m, one); });
  }
  if (!trained) return;
  if (has_several_losses())
    for (const LossSums& one : all) add_loss_metric(m, one, by_adapter || r.weights.size() > 1);
  for (const LossSums& one : of_adapters) add_loss_metric(m, one, true);
  for (const LossSums& one : terms) add_loss_metric(m, one, true);
  if (!by_adapter || !training()) return;
  of_adapters.insert(of_adapters.end(), terms.begin(), terms.end());
  note_adapter_weights(m, of_adapters);
  graph_->scope = model_ + ".losses";
  std::vector<ValueId> sums;
  for (const LossSums& one : all) sums.insert(sums.end(), {one.sum, one.weights});
  for (const auto& [name, term] : over_adapters(terms))
    sums.insert(sums.end(), term.begin(), term.end());
  r.mean_sums = joined(sums);
}

// Losses that count the same weights are divided together, by the step or by the evaluation.
void Tracer::add_loss(size_t m, const LossSums& loss) {
  Result& r = results_[m];
  const bool separate = r.weights.size() > 1;
  ValueId sum = loss.scaled ? loss.scaled : loss.sum;
  if (loss.factor != 1) sum = program::scaled(*graph_, sum, loss.factor);
  if (plan_.models[m].trained && separate && training())
    sum = program::binary(*graph_, "mul", sum, factor_of(r, loss.weights));
  else
    r.weight_sum = r.weights[0];
  r.loss_sum = r.loss_sum ? program::binary(*graph_, "add", r.loss_sum, sum) : sum;
}

// has_weights: the metric is divided by the weights of this loss, not by the model's.
void Tracer::add_loss_metric(size_t m, const LossSums& loss, bool has_weights) {
  graph_->scope = model_ + "." + loss.name;
  const bool alone = plan_.experiment.models.size() == 1;
  std::string name = loss.is_term ? loss.name : "loss";
  if (!alone && loss.is_term) name.insert(0, plan_.models[m].name + ".");
  if (!alone && !loss.is_term) name += "." + plan_.models[m].name;
  if (has_several_losses() && !loss.is_term) name += "." + loss.name;
  if (!loss.adapter.empty()) name += "." + loss.adapter;
  const ValueId state = has_weights ? joined({loss.sum, loss.weights}) : loss.sum;
  metric_states_.push_back({name, nullptr, m, state, has_weights, loss.factor, loss.adapter});
}

// Scalars as one value (n).
ValueId Tracer::joined(const std::vector<ValueId>& scalars) {
  std::vector<ValueId> parts;
  for (const ValueId v : scalars) parts.push_back(program::reshaped(*graph_, v, {1}));
  return graph_->apply1("concat", parts, {program::attr("axis", int64_t{0})});
}

void Tracer::note_adapter_weights(size_t m, const std::vector<LossSums>& of_adapters) {
  Result& r = results_[m];
  for (const std::string& adapter : config::adapter_names(plan_.experiment.models[m])) {
    std::vector<size_t>& own = r.adapter_weights.emplace_back();
    for (const LossSums& one : of_adapters)
      if (one.adapter == adapter)
        own.push_back(static_cast<size_t>(
            std::find(r.weights.begin(), r.weights.end(), one.weights) - r.weights.begin()));
  }
}

void Tracer::for_each_adapter(size_t m,
                              const std::function<void(const std::string& adapter)>& call) {
  const config::ModelConfig& model = plan_.experiment.models[m];
  if (model.adapter_field.empty()) return;
  const std::string path = model.path + ".adapter_field";
  if (problems_ && problems_->touch(path)) return;
  const bool choose = samples_choose(model);
  try {
    if (choose) adapter_index(model);
  } catch (const Error& e) {
    if (!problems_ || e.code() == PLAIT_ERR_MEMORY) throw;
    error_site_.reset();
    return problems_->add(model.keys.origin("adapter_field"), path, e.full_text());
  }
  const ValueId all = values_.at("weight");
  int64_t k = 0;
  for (const std::string& adapter : config::adapter_names(model)) {
    graph_->scope = model_ + ".losses";
    const ValueId own =
        choose ? takes(model, {k++}) : graph_->constant(all_take(model, adapter) ? 1 : 0);
    values_["weight"] = graph_->apply1("select", {own, all, graph_->constant(0)});
    call(adapter);
  }
  values_["weight"] = all;
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
