#include "engine/plan/step_programs.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <bit>
#include <map>

#include "engine/plan/collectives.hpp"
#include "engine/plan/float8.hpp"
#include "engine/plan/frozen_numbers.hpp"
#include "engine/plan/halves.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/loss_scale.hpp"
#include "engine/plan/loss_weights.hpp"
#include "engine/plan/low_copies.hpp"
#include "engine/plan/mesh.hpp"
#include "engine/plan/quantized_weights.hpp"
#include "engine/plan/zero.hpp"
#include "engine/program/cheap_operands.hpp"
#include "engine/program/chunk_rows.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/precision.hpp"
#include "engine/program/recompute.hpp"
#include "engine/program/rematerialize.hpp"
#include "engine/program/shard.hpp"
#include "engine/program/verify.hpp"

namespace plait::plan {

using program::attr;
using program::Graph;
using program::make_shape;
using program::ValueId;

namespace {

using program::Placements;

// The values of a program that are needed after it is sharded over the mesh; their ids are then
// replaced by those in the sharded program.
class LiveOuts {
 public:
  void add(ValueId& v, const Placements& placements) {
    at_.push_back(&v);
    requested_.push_back({v, placements});
  }
  std::unique_ptr<Graph> shard(const Mesh& mesh, std::unique_ptr<Graph> graph,
                               const std::map<ValueId, Placements>& sharded,
                               const AddCollective& add) {
    std::vector<program::MeshAxis> axes;
    for (const MeshRow& row : mesh) axes.push_back(row.axis);
    std::vector<ValueId> made;
    auto own = program::shard_graph(
        *graph, axes, sharded, requested_,
        [&](size_t axis, const std::string& name, uint32_t kind, uint32_t reduction, uint32_t dtype,
            uint64_t n) {
          Collective c;
          c.name = name;
          c.axis = mesh[axis].group;
          c.kind = kind;
          c.reduction = reduction;
          c.dtype = dtype;
          c.n = n;
          return add(std::move(c));
        },
        made);
    for (size_t i = 0; i < made.size(); ++i) *at_[i] = made[i];
    return own;
  }

 private:
  std::vector<ValueId*> at_;
  std::vector<program::RequestedValue> requested_;
};

// The parameters that a program reads, with one value per stage. sharded: only the sharded ones.
std::vector<ParameterUse> parameter_uses_of(Graph& g, const Plan& plan, const Tracer& tracer,
                                            const Mesh& mesh,
                                            std::map<ValueId, Placements>& sharded) {
  std::vector<ValueId> values;
  for (const Parameter& p : plan.parameters)
    if (const ValueId v = tracer.parameter_value(p.name)) values.push_back(v);
  const auto split = program::split_parameter_uses(g, values);
  std::vector<ParameterUse> parameter_uses;
  for (const Parameter& p : plan.parameters) {
    const ValueId v = tracer.parameter_value(p.name);
    if (!v) continue;
    for (auto at = split.lower_bound({v, 0}); at != split.end() && at->first.first == v; ++at) {
      parameter_uses.push_back({&p, at->first.second, at->second, 0});
      if (p.sharded) sharded[at->second] = placements_of(mesh, p);
    }
  }
  return parameter_uses;
}

// The sum of the losses of all models.
ValueId loss_of(Graph& g, const std::vector<Tracer::Result>& results) {
  ValueId total = 0;
  for (const auto& r : results)
    if (r.loss_sum) total = total ? program::binary(g, "add", total, r.loss_sum) : r.loss_sum;
  return total;
}

void differentiate(Graph& g, const Plan& plan, const std::vector<Tracer::Result>& results,
                   std::vector<ParameterUse>& parameter_uses) {
  const ValueId total = loss_of(g, results);
  std::vector<ValueId> targets;
  for (const ParameterUse& use : parameter_uses)
    if (!use.parameter->frozen) targets.push_back(use.value);
  const auto gradients = program::differentiate(g, total, targets, loss_seed(g, plan));
  size_t i = 0;
  // What is added up wide for a weight of 16 bits is not rounded to its type.
  g.backward = true;
  for (ParameterUse& use : parameter_uses) {
    if (use.parameter->frozen) continue;
    use.gradient = gradients[i++];
    g.stage = use.stage;
    if (use.gradient) use.gradient = g.as_type(use.gradient, plan.precision.gradient);
  }
  g.backward = false;
  g.stage = 0;
}

void add_results(std::vector<Tracer::Result>& results, const Placements& replicated,
                 LiveOuts& live_outs) {
  for (auto& r : results) {
    live_outs.add(r.loss_sum, replicated);
    live_outs.add(r.weight_sum, replicated);
    live_outs.add(r.mean_sums, replicated);
  }
}

// Orders values by FLOPs per byte. Among equally cheap values it takes every other one, then every
// other one of the rest, so that the kept values divide the recomputed ones into short, even
// regions.
void order_by_cost(std::vector<program::SavedValue>& saved, size_t count) {
  const auto price = [](const program::SavedValue& s) {
    return s.flops / static_cast<double>(std::max<uint64_t>(s.bytes, 1));
  };
  std::stable_sort(saved.begin(), saved.end(),
                   [&](const auto& a, const auto& b) { return price(a) < price(b); });
  for (size_t begin = 0, end = 0; begin < saved.size(); begin = end) {
    while (end < saved.size() && price(saved[end]) <= price(saved[begin]) * 1.01) ++end;
    std::vector<std::pair<int, program::SavedValue>> same;
    for (size_t i = begin; i < end; ++i)
      same.emplace_back(std::countr_zero(i - begin + 1), saved[i]);
    std::stable_sort(same.begin(), same.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t i = begin; i < end; ++i) saved[i] = same[i - begin].second;
  }
  saved.resize(std::min(saved.size(), count));
}

void apply_recompute(Graph& g, RecomputeOptions& recompute) {
  if (recompute.mode == "none") return;
  if (recompute.mode == "cheap")
    return program::recompute(g, program::cheap_operands(g, recompute.flops), false);
  std::vector<program::SavedValue> saved = program::saved_values(g);
  recompute.candidates = saved.size();
  if (recompute.mode == "layer")
    std::erase_if(saved, [](const program::SavedValue& s) { return !s.layer_local; });
  if (recompute.mode == "budget") order_by_cost(saved, recompute.n_cheapest);
  std::vector<ValueId> dropped;
  for (const program::SavedValue& s : saved) dropped.push_back(s.value);
  program::recompute(g, dropped, recompute.mode == "layer");
}

// Casts that differentiation or sharding made superfluous go; then reads of a parameter's low copy
// take the place of casts.
void fold_casts(const Plan& plan, TracedStep& w) {
  if (!plan.precision.is_mixed()) return;
  std::vector<ValueId*> kept;
  for (Tracer::Result& r : w.results)
    kept.insert(kept.end(), {&r.loss_sum, &r.weight_sum, &r.mean_sums});
  for (Tracer::MetricState& s : w.states) kept.push_back(&s.state);
  for (auto& [name, v] : w.outputs) kept.push_back(&v);
  for (ParameterUse& use : w.parameter_uses) kept.push_back(&use.gradient);
  program::fold_casts(*w.graph, kept);
}

// The same for a sharded program, whose tables are read as they lie.
void finish_casts(const Plan& plan, TracedStep& w) {
  fold_casts(plan, w);
  read_frozen_numbers(plan, w);
  read_low_copies(plan, w);
  read_halves(w);
  if (plan.precision.low_frozen) program::widen_rows(*w.graph);
}

// A copy of the traced graph, whose parameters and factors of losses are bound to this plan's
// memory.
std::unique_ptr<Graph> traced_graph(const Plan& plan, const Tracer& tracer) {
  auto graph = std::make_unique<Graph>(tracer.graph());
  for (const Parameter& p : plan.parameters)
    if (const ValueId v = tracer.parameter_value(p.name)) graph->value(v).buffer = p.value;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    const std::vector<ValueId>& factors = tracer.results()[m].factors;
    for (size_t i = 0; i < factors.size(); ++i)
      graph->value(factors[i]).buffer = loss_factor(plan, plan.models[m], i);
  }
  return graph;
}

program::ChunkLimits chunk_limits(const Plan& plan) {
  constexpr double kMost = 1e12;  // MiB; more is the same as no limit
  const double mib = std::min(plan.experiment.topology.chunk_mib, kMost);
  program::ChunkLimits limits;
  limits.bytes = mib > 0 ? static_cast<uint64_t>(mib * (1 << 20)) : UINT64_MAX;
  limits.rows = plan.experiment.topology.chunk_rows;
  return limits;
}

// Outputs that a host cannot predict need not be whole: see `evaluate.outputs`.
void leave_out_outputs(const Plan& plan, TracedStep& w) {
  const std::string& kept = plan.experiment.evaluate.outputs;
  if (kept == "all") return;
  const uint64_t most = kept == "none" ? 0 : chunk_limits(plan).bytes;
  for (const auto& [name, v] : w.outputs)
    if (program::bytes(w.graph->shape(v)) > most)
      w.outputs_left_out.push_back({name, w.graph->shape(v), {}, 0});
  std::erase_if(w.outputs,
                [&](const auto& o) { return program::bytes(w.graph->shape(o.second)) > most; });
}

}  // namespace

TracedStep write_training(const Plan& plan, const Tracer& tracer, RecomputeOptions& recompute,
                          const AddCollective& add) {
  TracedStep w;
  w.results = tracer.results();
  w.states = tracer.metric_states();
  w.graph = traced_graph(plan, tracer);
  const Mesh mesh = mesh_of(plan);
  const Placements replicated(mesh.size());
  std::map<ValueId, Placements> sharded;
  w.parameter_uses = parameter_uses_of(*w.graph, plan, tracer, mesh, sharded);
  program::verify_after("tracing", "training", *w.graph);
  mark_float8(plan, *w.graph, w.parameter_uses);
  differentiate(*w.graph, plan, w.results, w.parameter_uses);
  program::verify_after("differentiate", "training", *w.graph);
  fold_casts(plan, w);
  program::verify_after("fold_casts", "training", *w.graph);
  LiveOuts live_outs;
  add_results(w.results, replicated, live_outs);
  for (auto& s : w.states) live_outs.add(s.state, replicated);
  std::vector<ValueId> needed;
  for (const auto& r : w.results)
    needed.insert(needed.end(), {r.loss_sum, r.weight_sum, r.mean_sums});
  for (const auto& s : w.states) needed.push_back(s.state);
  for (const ParameterUse& use : w.parameter_uses) needed.push_back(use.gradient);
  program::chunk_rows(*w.graph, chunk_limits(plan), needed);
  program::verify_after("chunk_rows", "training", *w.graph);
  multiply_float8(plan, *w.graph);
  program::verify_after("multiply_f8", "training", *w.graph);
  for (ParameterUse& use : w.parameter_uses) {
    const Placements placements = placements_of(mesh, *use.parameter);
    live_outs.add(use.gradient, placements);
    live_outs.add(use.value, placements);
  }
  w.graph = live_outs.shard(mesh, std::move(w.graph), sharded, add);
  program::verify_after("shard_graph", "training", *w.graph);
  finish_casts(plan, w);
  program::verify_after("read_low_copies", "training", *w.graph);
  program::rematerialize(*w.graph);
  program::verify_after("rematerialize", "training", *w.graph);
  apply_recompute(*w.graph, recompute);
  program::verify_after("recompute", "training", *w.graph);
  return w;
}

TracedStep write_evaluation(const PlanDraft& plan, const Tracer& tracer, const AddCollective& add) {
  TracedStep w;
  w.results = tracer.results();
  w.states = tracer.metric_states();
  w.outputs = tracer.outputs();
  w.graph = traced_graph(plan, tracer);
  std::erase_if(w.outputs, [&](const auto& o) {  // not one row per sample
    const plait_shape& shape = w.graph->shape(o.second);
    return shape.ndim < 1 || shape.dims[0] != plan.evaluation_feed.batch;
  });
  leave_out_outputs(plan, w);
  for (auto& [name, v] : w.outputs) {  // a host reads them as numbers of the plan's own type
    w.graph->scope = "outputs";
    if (plan.precision.is_mixed() && program::is_float(w.graph->shape(v).dtype))
      v = w.graph->as_type(v, plan.precision.scalar);
  }
  const Mesh mesh = mesh_of(plan);
  const Placements replicated(mesh.size());
  std::map<ValueId, Placements> sharded;
  w.parameter_uses = parameter_uses_of(*w.graph, plan, tracer, mesh, sharded);
  mark_float8(plan, *w.graph, w.parameter_uses);
  std::vector<ValueId> needed;
  for (const auto& r : w.results)
    needed.insert(needed.end(), {r.loss_sum, r.weight_sum, r.mean_sums});
  for (const auto& s : w.states) needed.push_back(s.state);
  for (const auto& o : w.outputs) needed.push_back(o.second);
  program::chunk_rows(*w.graph, chunk_limits(plan), needed);
  program::verify_after("chunk_rows", "evaluation", *w.graph);
  multiply_float8(plan, *w.graph);
  program::verify_after("multiply_f8", "evaluation", *w.graph);
  LiveOuts live_outs;
  add_results(w.results, replicated, live_outs);
  for (auto& s : w.states) live_outs.add(s.state, replicated);
  for (auto& o : w.outputs) live_outs.add(o.second, replicated);
  for (ParameterUse& use : w.parameter_uses)
    live_outs.add(use.value, placements_of(mesh, *use.parameter));
  w.graph = live_outs.shard(mesh, std::move(w.graph), sharded, add);
  program::verify_after("shard_graph", "evaluation", *w.graph);
  finish_casts(plan, w);
  program::verify_after("read_low_copies", "evaluation", *w.graph);
  return w;
}

namespace {

// Moves the ops from `first` on behind what makes their first inputs, which may then go.
void move_up(Graph& g, size_t first) {
  std::map<int32_t, std::vector<size_t>> behind;
  for (size_t i = first; i < g.ops().size(); ++i)
    behind[g.value(g.ops()[i].in[0]).producer].push_back(i);
  std::vector<size_t> order = behind[-1];
  for (size_t i = 0; i < first; ++i) {
    order.push_back(i);
    const std::vector<size_t>& next = behind[static_cast<int32_t>(i)];
    order.insert(order.end(), next.begin(), next.end());
  }
  g.reorder(order);
}

// Writes the statistics of each tensor of a layer.
void observe_values(Graph& g, const Plan& plan, const Tracer& observed, TracedStep& w) {
  const auto& outputs = observed.layer_outputs();
  std::vector<ValueId> targets;
  std::map<size_t, size_t> gradient_of;  // by layer output: index into targets
  for (const StatisticsTensor& t : plan.statistics.tensors)
    if (t.of == StatisticsOf::kActivationGradients &&
        gradient_of.try_emplace(t.source, targets.size()).second)
      targets.push_back(outputs[t.source].value);
  const std::vector<ValueId> gradients =
      targets.empty()
          ? targets
          : program::differentiate(g, loss_of(g, observed.results()), targets, loss_seed(g, plan));
  std::vector<std::vector<ValueId>> inputs;
  for (const StatisticsTensor& t : plan.statistics.tensors) {
    if (t.of != StatisticsOf::kActivations && t.of != StatisticsOf::kActivationGradients) continue;
    const bool gradient = t.of == StatisticsOf::kActivationGradients;
    ValueId v = gradient ? gradients[gradient_of[t.source]] : outputs[t.source].value;
    if (!v) v = program::filled(g, g.shape(outputs[t.source].value), 0);  // no loss depends on it
    inputs.push_back({v});
    if (gradient)
      inputs.back().push_back(g.persistent(
          "scale", make_shape(PLAIT_F64, {}),
          plan.statistics.scales.at(static_cast<int64_t>(plan.models.size() + t.model))));
  }
  const size_t first = g.ops().size();
  g.scope = "statistics";
  for (std::vector<ValueId>& in : inputs)
    for (const ValueId v :
         g.apply("statistics", std::move(in), {attr("histogram", plan.statistics.histogram)}))
      w.states.push_back({"", nullptr, 0, v});
  move_up(g, first);
}

}  // namespace

TracedStep write_observation(const Plan& plan, const Tracer& observed, const AddCollective& add) {
  TracedStep w;
  w.graph = traced_graph(plan, observed);
  const Mesh mesh = mesh_of(plan);
  std::map<ValueId, Placements> sharded;
  w.parameter_uses = parameter_uses_of(*w.graph, plan, observed, mesh, sharded);
  mark_float8(plan, *w.graph, w.parameter_uses);
  observe_values(*w.graph, plan, observed, w);
  program::verify_after("differentiate", "observation", *w.graph);
  fold_casts(plan, w);
  std::vector<ValueId> needed;
  LiveOuts live_outs;
  for (auto& s : w.states) {
    needed.push_back(s.state);
    live_outs.add(s.state, Placements(mesh.size()));
  }
  program::chunk_rows(*w.graph, chunk_limits(plan), needed);
  program::verify_after("chunk_rows", "observation", *w.graph);
  multiply_float8(plan, *w.graph);
  program::verify_after("multiply_f8", "observation", *w.graph);
  for (ParameterUse& use : w.parameter_uses)
    live_outs.add(use.value, placements_of(mesh, *use.parameter));
  w.graph = live_outs.shard(mesh, std::move(w.graph), sharded, add);
  program::verify_after("shard_graph", "observation", *w.graph);
  finish_casts(plan, w);
  program::verify_after("read_low_copies", "observation", *w.graph);
  program::rematerialize(*w.graph);
  program::verify_after("rematerialize", "observation", *w.graph);
  const config::TopologyConfig& topology = plan.experiment.topology;
  // A budget is that of the step.
  RecomputeOptions recompute{topology.recompute == "budget" ? "layer" : topology.recompute,
                             topology.recompute_flops, 0, 0};
  apply_recompute(*w.graph, recompute);
  program::verify_after("recompute", "observation", *w.graph);
  return w;
}

TracedStep write_generation(PlanDraft& plan, const Tracer& tracer,
                            const program::CacheInputs& inputs, const AddCollective& add) {
  program::CacheSource source;
  source.tokens = tracer.field(tokens_field(plan, tracer));
  const std::vector<std::string>& names = plan.generation_fields.names;
  if (std::find(names.begin(), names.end(), kPositionsField) != names.end())
    source.positions = tracer.field(kPositionsField);
  const config::ModelConfig& model = *plan.experiment.model(plan.generation.model);
  if (!model.adapter_field.empty()) source.numbers = tracer.field(model.adapter_field);
  std::map<ValueId, const Parameter*> parameters;
  for (const Parameter& p : plan.parameters)
    if (const ValueId v = tracer.parameter_value(p.name)) parameters[v] = &p;
  for (const auto& [v, p] : parameters) source.constants.insert(v);
  for (size_t m = 0; m < plan.models.size(); ++m)
    if (plan.models[m].name == plan.generation.model) source.output = tracer.results()[m].output;
  program::CachedProgram made = program::with_cache(*traced_graph(plan, tracer), source, inputs);
  plan.generation.length_limits.merge(made.length_limits);
  program::verify_after("with_cache", "generation", *made.graph);

  TracedStep w;
  w.graph = std::move(made.graph);
  if (made.output) {
    w.graph->scope = "outputs";
    w.outputs = {{"logits", w.graph->as_type(made.output, plan.precision.scalar)}};
  }
  Mesh mesh = mesh_of(plan);
  // There are too few rows to shard.
  for (MeshRow& row : mesh) row.axis.sequence = false;
  std::map<ValueId, Placements> sharded;
  auto value = made.constants.begin();
  for (const auto& [v, p] : parameters) {
    if (*value) w.parameter_uses.push_back({p, 0, *value, 0});
    if (*value && p->sharded) sharded[*value] = placements_of(mesh, *p);
    ++value;
  }
  LiveOuts live_outs;
  for (auto& o : w.outputs) live_outs.add(o.second, Placements(mesh.size()));
  for (ParameterUse& use : w.parameter_uses)
    live_outs.add(use.value, placements_of(mesh, *use.parameter));
  w.graph = live_outs.shard(mesh, std::move(w.graph), sharded, add);
  program::verify_after("shard_graph", "generation", *w.graph);
  fold_casts(plan, w);
  read_quantized_weights(plan, w);
  program::verify_after("quantize_products", "generation", *w.graph);
  finish_casts(plan, w);
  program::verify_after("read_low_copies", "generation", *w.graph);
  return w;
}

}  // namespace plait::plan
