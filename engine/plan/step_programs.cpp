#include "engine/plan/step_programs.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>

#include "engine/plan/collectives.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/loss_scale.hpp"
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

ValueId flat(Graph& g, const std::string& name, const FlatBuffer& buffer, int64_t first,
             int64_t n) {
  return g.persistent(name, make_shape(buffer.dtype, {n}), buffer.at(first));
}

namespace {

// Adds the value of a micro-batch to the sum of the step, or sets it if there is one micro-batch.
// dtype: the type of the sum at `place`.
ValueId bind_or_accumulate(Graph& g, const Plan& plan, const std::string& name, ValueId v,
                           BufferRef buffer, uint32_t dtype) {
  v = g.as_type(v, dtype);
  if (!plan.accumulates()) return g.bind(v, buffer);
  const ValueId sum = g.persistent(name, g.shape(v), buffer);
  return g.assign(sum, program::binary(g, "add", sum, v));
}

// Sums the squares of a gradient where it is computed, if it is complete then, so that the norm
// need not read all gradients again.
void bind_gradient_squares(Graph& g, PlanDraft& plan, const Parameter& of, ValueId gradient) {
  Parameter& p = plan.parameters[static_cast<size_t>(&of - plan.parameters.data())];
  auto model = std::find_if(plan.models.begin(), plan.models.end(),
                            [&](const Model& m) { return m.name == p.model; });
  if (!model->squares.exists())
    model->squares =
        plan.storage.add_flat(p.model + ".squares", Category::kResults, plan.precision.scalar);
  if (p.squares.segment < 0) p.squares = plan.storage.append(model->squares, 1);
  std::vector<int64_t> axes(g.shape(gradient).ndim);
  std::iota(axes.begin(), axes.end(), 0);
  g.scope = p.model + ".optimizer";
  g.bind(
      g.apply1("reduce", {g.as_type(gradient, plan.precision.scalar)},
               {attr("kind", std::string("sum_squares")), attr("axes", axes), attr("keep", false)}),
      p.squares);
}

// Starts to reduce the sums of the step over the replicas; finish_step_sums() waits.
void start_step_sums(Graph& g, PlanDraft& plan, const std::vector<ValueId>& bound) {
  std::vector<ValueId> in{flat(g, "sums", plan.results, 0, plan.n_step_sums())};
  in.insert(in.end(), bound.begin(), bound.end());
  g.scope = "replicas";
  plan.step_sums_collective =
      add_collective(plan, "losses and weights", topology::Axis::kData, PLAIT_COMM_ALL_REDUCE);
  start_all_reduce(g, plan, plan.step_sums_collective, std::move(in));
}

// Reduces gradients bucket by bucket, the last first: the backward pass computes them in that
// order.
void reduce_gradients(Graph& g, PlanDraft& plan, const std::map<const Parameter*, ValueId>& bound,
                      int32_t chunk) {
  std::map<const Bucket*, std::vector<ValueId>> delivered_of;
  for (const auto& [p, v] : bound) delivered_of[&bucket_of(plan, *p)].push_back(v);
  for (ParameterGroup& group : plan.groups) {
    g.scope = group.name;
    for (size_t i = group.buckets.size(); i-- > 0;) {
      Bucket& bucket = group.buckets[i];
      if (bucket.chunk != chunk) continue;
      const std::string name = "gradients of " + group.name + ", bucket " + std::to_string(i);
      std::vector<ValueId> in{flat(g, name, group.gradients, bucket.begin, bucket.elements)};
      const std::vector<ValueId>& own = delivered_of[&bucket];
      in.insert(in.end(), own.begin(), own.end());
      const bool scatter = plan.zero > 0 && bucket.owner < 0;
      bucket.gradient_collective =
          add_collective(plan, name, topology::Axis::kData,
                         scatter ? PLAIT_COMM_REDUCE_SCATTER : PLAIT_COMM_ALL_REDUCE);
      if (scatter)
        start_reduce_scatter(g, plan, bucket.gradient_collective, std::move(in),
                             group.gradients.at(bucket.shard_begin));
      else
        start_all_reduce(g, plan, bucket.gradient_collective, std::move(in));
    }
  }
}

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
  for (Tracer::Result& r : w.results) kept.insert(kept.end(), {&r.loss_sum, &r.weight_sum});
  for (Tracer::MetricState& s : w.states) kept.push_back(&s.state);
  for (auto& [name, v] : w.outputs) kept.push_back(&v);
  for (ParameterUse& use : w.parameter_uses) kept.push_back(&use.gradient);
  program::fold_casts(*w.graph, kept);
}

// The same for a sharded program, whose tables are read as they lie.
void finish_casts(const Plan& plan, TracedStep& w) {
  fold_casts(plan, w);
  read_low_copies(plan, w);
  if (plan.precision.low_weights) program::widen_rows(*w.graph);
}

// A copy of the traced graph, whose parameters are bound to this plan's memory.
std::unique_ptr<Graph> traced_graph(const Plan& plan, const Tracer& tracer) {
  auto graph = std::make_unique<Graph>(tracer.graph());
  for (const Parameter& p : plan.parameters)
    if (const ValueId v = tracer.parameter_value(p.name)) graph->value(v).buffer = p.value;
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
  differentiate(*w.graph, plan, w.results, w.parameter_uses);
  program::verify_after("differentiate", "training", *w.graph);
  fold_casts(plan, w);
  program::verify_after("fold_casts", "training", *w.graph);
  LiveOuts live_outs;
  add_results(w.results, replicated, live_outs);
  for (auto& s : w.states) live_outs.add(s.state, replicated);
  std::vector<ValueId> needed;
  for (const auto& r : w.results) needed.insert(needed.end(), {r.loss_sum, r.weight_sum});
  for (const auto& s : w.states) needed.push_back(s.state);
  for (const ParameterUse& use : w.parameter_uses) needed.push_back(use.gradient);
  program::chunk_rows(*w.graph, chunk_limits(plan), needed);
  program::verify_after("chunk_rows", "training", *w.graph);
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
  std::vector<ValueId> needed;
  for (const auto& r : w.results) needed.insert(needed.end(), {r.loss_sum, r.weight_sum});
  for (const auto& s : w.states) needed.push_back(s.state);
  for (const auto& o : w.outputs) needed.push_back(o.second);
  program::chunk_rows(*w.graph, chunk_limits(plan), needed);
  program::verify_after("chunk_rows", "evaluation", *w.graph);
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
  std::map<ValueId, const Parameter*> parameters;
  for (const Parameter& p : plan.parameters)
    if (const ValueId v = tracer.parameter_value(p.name)) parameters[v] = &p;
  for (const auto& [v, p] : parameters) source.constants.insert(v);
  for (size_t m = 0; m < plan.models.size(); ++m)
    if (plan.models[m].name == plan.generation.model) source.output = tracer.results()[m].output;
  program::CachedProgram made = program::with_cache(*traced_graph(plan, tracer), source, inputs);
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

int32_t stage_of(const Graph& g, ValueId v) {
  const int32_t producer = g.value(v).producer;
  return producer < 0 ? 0 : g.ops()[static_cast<size_t>(producer)].stage;
}

std::vector<program::LiveOut> live_outs_of(const TracedStep& w) {
  std::vector<program::LiveOut> all;
  const auto add = [&](ValueId v) {
    if (v) all.push_back({v, stage_of(*w.graph, v)});
  };
  for (const auto& r : w.results) {
    add(r.loss_sum);
    add(r.weight_sum);
  }
  for (const auto& s : w.states) add(s.state);
  for (const auto& o : w.outputs) add(o.second);
  for (const ParameterUse& use : w.parameter_uses)
    if (use.gradient) all.push_back({use.gradient, use.stage});
  return all;
}

namespace {

// The live-outs of losses and metrics.
std::vector<ValueId> bind_step_sums(const Plan& plan, const TracedStep& w, const StageView& view) {
  Graph& g = view.graph;
  std::vector<ValueId> sums;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    const Model& model = plan.models[m];
    if (!model.trained) continue;
    const auto add = [&](const char* name, ValueId v, BufferRef buffer) {
      if (const ValueId own = view.live_out(v, stage_of(*w.graph, v)))
        sums.push_back(bind_or_accumulate(g, plan, name, own, buffer, plan.results.dtype));
    };
    add("loss_sum", w.results[m].loss_sum, model.loss_sum);
    add("weight_sum", w.results[m].weight_sum, model.weight_sum);
  }
  for (size_t i = 0; i < w.states.size(); ++i) {
    const ValueId v = w.states[i].state;
    if (const ValueId own = view.live_out(v, stage_of(*w.graph, v)))
      sums.push_back(bind_or_accumulate(g, plan, plan.train_metrics[i].name, own,
                                        plan.train_metrics[i].state, plan.results.dtype));
  }
  return sums;
}

}  // namespace

void gather_parameter_uses(PlanDraft& plan, const TracedStep& w, const StageView& view) {
  if (plan.zero < 3) return;
  std::map<const Parameter*, ValueId> values;
  for (const ParameterUse& use : w.parameter_uses)
    if (const ValueId v = view.read(use)) values[use.parameter] = v;
  if (!values.empty()) gather_parameters(view.graph, plan, values);
}

void bind_training_outputs(PlanDraft& plan, const TracedStep& w, const StageView& view) {
  Graph& g = view.graph;
  const std::vector<ValueId> sums = bind_step_sums(plan, w, view);
  std::map<const Parameter*, ValueId> bound;
  for (const ParameterUse& use : w.parameter_uses) {
    const ValueId own = use.gradient ? view.live_out(use.gradient, use.stage) : 0;
    if (!own) continue;
    const Parameter& p = *use.parameter;
    bound[&p] = plan.zero < 2 ? bind_or_accumulate(g, plan, p.name + ".gradient", own, p.gradient,
                                                   plan.precision.gradient)
                              : g.as_type(own, plan.precision.gradient);
    if (!plan.accumulates() && plan.grid.ranks() == 1) bind_gradient_squares(g, plan, p, own);
  }
  const bool shares = view.last && plan.grid.data() > 1;
  // Pipeline ranks reduce their sums in the update program: see write_update().
  if (shares && plan.grid.pipeline() == 1) start_step_sums(g, plan, sums);
  if (plan.zero >= 2)
    scatter_gradients(g, plan, bound);
  else if (shares)
    reduce_gradients(g, plan, bound, view.chunk);
  gather_parameter_uses(plan, w, view);
}

void allocate_evaluation_results(PlanDraft& plan, const TracedStep& w) {
  plan.outputs_left_out = w.outputs_left_out;
  const int32_t segment = plan.storage.add("evaluation", Category::kResults);
  const auto allocate = [&](ValueId v) {
    return plan.storage.allocate(segment, program::bytes(w.graph->shape(v)));
  };
  for (const auto& s : w.states)
    plan.metrics.push_back({s.name, s.item, s.model, allocate(s.state)});
  for (const auto& [name, v] : w.outputs)
    plan.outputs.push_back({name, w.graph->shape(v), allocate(v),
                            plan.pipeline.schedule.shape.rank_of(stage_of(*w.graph, v))});
}

void bind_evaluation_outputs(PlanDraft& plan, const TracedStep& w, const StageView& view) {
  const auto bind = [&](ValueId v, BufferRef buffer) {
    if (const ValueId own = v ? view.live_out(v, stage_of(*w.graph, v)) : 0)
      view.graph.bind(own, buffer);
  };
  for (size_t m = 0; m < plan.models.size(); ++m) {
    bind(w.results[m].loss_sum, plan.models[m].eval_loss_sum);
    bind(w.results[m].weight_sum, plan.models[m].eval_weight_sum);
  }
  for (size_t i = 0; i < w.states.size(); ++i) bind(w.states[i].state, plan.metrics[i].state);
  for (size_t i = 0; i < w.outputs.size(); ++i) bind(w.outputs[i].second, plan.outputs[i].buffer);
  gather_parameter_uses(plan, w, view);
}

ValueId sum_over(Graph& g, PlanDraft& plan, topology::Axis axis, const std::string& name,
                 ValueId v) {
  if (ranks_of(plan, axis) == 1) return v;
  const int32_t collective = add_collective(plan, name, axis, PLAIT_COMM_ALL_REDUCE);
  return wait_collective(g, collective, start_all_reduce(g, plan, collective, {v}));
}

void wait_pending_sends(Graph& g, const std::vector<PendingSend>& pending) {
  g.scope = "stages";
  for (const PendingSend& p : pending)
    for (int32_t slot = 0; slot < p.slots; ++slot)
      wait_for_slot(g, p.collective, g.persistent("sent", p.shape, p.buffer), slot);
}

std::unique_ptr<Graph> write_broadcast_outputs(PlanDraft& plan) {
  auto graph = std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar);
  graph->scope = "stages";
  for (const Output& n : plan.outputs) {
    const int32_t id = add_collective(plan, "value '" + n.name + "'", topology::Axis::kPipeline,
                                      PLAIT_COMM_BROADCAST);
    plan.collectives[static_cast<size_t>(id)].peer = static_cast<uint32_t>(n.owner);
    const ValueId v = graph->persistent(n.name, n.shape, n.buffer);
    wait_collective(*graph, id, start_broadcast(*graph, plan, id, {v}));
  }
  return graph;
}

std::unique_ptr<Graph> write_metric_sums(PlanDraft& plan) {
  auto graph = std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar);
  wait_pending_sends(*graph, plan.evaluation_sends);
  graph->scope = "replicas";
  int64_t n = 2 + 2 * static_cast<int64_t>(plan.models.size());
  for (const Metric& m : plan.metrics) n += m.n_state();
  // Counted on the host, in double.
  plan.metric_sums = plan.storage.add_flat("totals", Category::kResults, PLAIT_F64);
  plan.storage.append(plan.metric_sums, n);
  const ValueId totals = flat(*graph, "totals", plan.metric_sums, 0, n);
  // Tensor ranks count the same samples, but any of them may request a stop.
  const ValueId wish = flat(*graph, "stop request", plan.metric_sums, 1, 1);
  sum_over(*graph, plan, topology::Axis::kTensor, "stop request", wish);
  const ValueId sums =
      sum_over(*graph, plan, topology::Axis::kData, "metrics of an evaluation", totals);
  sum_over(*graph, plan, topology::Axis::kPipeline, "metrics of an evaluation, by stage", sums);
  return graph;
}

}  // namespace plait::plan
