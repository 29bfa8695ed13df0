#include "engine/plan/pipeline.hpp"

#include <set>

#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {
namespace {

topology::ActionKind direction(const program::Op& op) {
  return op.backward ? topology::ActionKind::kBackward : topology::ActionKind::kForward;
}

// The operations of each layer of each model. A model's losses count for its last layer.
std::vector<std::vector<double>> costs_of_layers(const Plan& plan, const TraceWith& trace) {
  const auto& models = plan.experiment.models;
  // Traces with one stage per layer, one model behind the other in the order of tracing, to get the
  // cost of each.
  std::vector<int32_t> first(models.size());
  int32_t n = 0;
  for (const bool frozen : {true, false})
    for (size_t m = 0; m < models.size(); ++m)
      if (models[m].frozen == frozen) {
        first[m] = n;
        n += std::max(1, static_cast<int32_t>(models[m].layers.size()));
      }
  const auto last = [&](size_t m) { return std::max<size_t>(1, models[m].layers.size()) - 1; };
  const auto tracer = trace([&](size_t m, size_t layer) {
    return first[m] + static_cast<int32_t>(std::min(layer, last(m)));
  });
  Graph& g = tracer->graph();
  std::vector<ValueId> parameters;
  for (const Parameter& p : plan.parameters)
    if (const ValueId v = tracer->parameter_value(p.name)) parameters.push_back(v);
  for (const auto& r : tracer->results())
    if (r.loss_sum) program::differentiate(g, r.loss_sum, parameters);
  const auto all = costs_of(g, n, [&](size_t op) { return direction(g.ops()[op]); });
  std::vector<std::vector<double>> costs;
  for (size_t m = 0; m < models.size(); ++m) {
    costs.emplace_back();
    for (size_t l = 0; l < models[m].layers.size(); ++l) {
      const topology::StageCost& c = all[static_cast<size_t>(first[m]) + l];
      costs.back().push_back(c.forward + c.backward);
    }
  }
  return costs;
}

// A model with fewer layers than there are stages: the layers are spread over them.
std::vector<int32_t> spread(int64_t layers, int32_t stages) {
  std::vector<int32_t> of;
  for (int64_t l = 0; l < layers; ++l) of.push_back(static_cast<int32_t>(l * stages / layers));
  return of;
}

}  // namespace

std::vector<topology::StageCost> costs_of(
    const Graph& g, int32_t stages, const std::function<topology::ActionKind(size_t op)>& kind) {
  std::vector<topology::StageCost> costs(static_cast<size_t>(stages), {0, 0, 0});
  for (size_t i = 0; i < g.ops().size(); ++i) {
    topology::StageCost& c = costs.at(static_cast<size_t>(g.ops()[i].stage));
    const double flops = program::flops_of(g, g.ops()[i]);
    (kind(i) == topology::ActionKind::kForward    ? c.forward
     : kind(i) == topology::ActionKind::kBackward ? c.backward
                                                  : c.weights) += flops;
  }
  return costs;
}

void choose_stages(PlanDraft& plan, const TraceWith& trace) {
  const auto& t = plan.experiment.topology;
  Pipeline& pipeline = plan.pipeline;
  for (const auto& m : plan.experiment.models) pipeline.stage_of.emplace_back(m.layers.size(), 0);
  if (plan.grid.pipeline() == 1) return;
  const topology::PipelineShape shape{plan.grid.pipeline(), static_cast<int32_t>(t.virtual_stages)};
  pipeline.schedule =
      topology::make_schedule(topology::schedule_kind_named(t.schedule), shape, plan.accumulation);
  std::vector<std::vector<double>> costs;
  if (t.stages.empty() && t.balance == "cost") costs = costs_of_layers(plan, trace);
  for (size_t m = 0; m < plan.experiment.models.size(); ++m) {
    const auto n = static_cast<int64_t>(plan.experiment.models[m].layers.size());
    std::vector<int32_t>& of = pipeline.stage_of[m];
    if (n < shape.stages()) {
      of = spread(n, shape.stages());
      continue;
    }
    const auto stages = !t.stages.empty() ? topology::stages_explicit(t.stages, n, shape)
                        : costs.empty()   ? topology::stages_by_count(n, shape)
                                          : topology::stages_by_cost(costs[m], shape);
    for (size_t s = 0; s < stages.size(); ++s)
      for (int64_t l = stages[s].begin; l < stages[s].end; ++l)
        of[static_cast<size_t>(l)] = static_cast<int32_t>(s);
  }
}

StageOf stage_of(const Plan& plan) {
  return [&pipeline = plan.pipeline](size_t model, size_t layer) {
    const auto& of = pipeline.stage_of[model];
    return layer < of.size() ? of[layer] : pipeline.stages() - 1;
  };
}

void note_holders(PlanDraft& plan, const TracedModels& models) {
  const topology::PipelineShape& shape = plan.pipeline.schedule.shape;
  for (Parameter& p : plan.parameters) {
    std::set<int32_t> stages;
    for (const Tracer* tracer : {models.train.get(), models.evaluate.get()}) {
      const Graph& g = tracer->graph();
      if (const ValueId v = tracer->parameter_value(p.name))
        for (const int32_t op : g.readers(v)) stages.insert(g.ops()[static_cast<size_t>(op)].stage);
    }
    if (stages.empty()) stages.insert(0);  // without a reader it is held by stage 0
    std::set<int32_t> ranks;
    for (const int32_t s : stages) {
      ranks.insert(shape.rank_of(s));
      if (shape.rank_of(s) != plan.at.pipeline) continue;
      const bool first = !p.held_by(plan.at.pipeline);
      p.chunk = first ? shape.chunk_of(s) : std::min(p.chunk, shape.chunk_of(s));
      p.holders.push_back(plan.at.pipeline);
    }
    p.holders.assign(ranks.begin(), ranks.end());
  }
}

}  // namespace plait::plan
