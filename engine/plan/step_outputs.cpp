// Binds what the programs of a step leave to memory: sums, gradients, results of evaluations; and
// the programs that sum or send them.
#include "engine/plan/step_programs.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/plan/collectives.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/zero.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {

using program::attr;
using program::Graph;
using program::make_shape;
using program::ValueId;

plait_shape scalar_of(const Plan& plan) { return make_shape(plan.precision.scalar, {}); }

ValueId flat(Graph& g, const std::string& name, const FlatBuffer& buffer, int64_t first,
             int64_t n) {
  return g.persistent(name, make_shape(buffer.dtype, {n}), buffer.at(first));
}

ValueId bind_or_accumulate(Graph& g, const Plan& plan, const std::string& name, ValueId v,
                           BufferRef buffer, uint32_t dtype) {
  v = g.as_type(v, dtype);
  if (!plan.accumulates()) return g.bind(v, buffer);
  const ValueId sum = g.persistent(name, g.shape(v), buffer);
  return g.assign(sum, program::binary(g, "add", sum, v));
}

namespace {

// Sums the squares of a gradient where it is computed, if it is complete then, so that the norm
// need not read all gradients again.
void bind_gradient_squares(Graph& g, PlanDraft& plan, const Parameter& of, ValueId gradient) {
  Parameter& p = plan.parameters[static_cast<size_t>(&of - plan.parameters.data())];
  auto model = std::find_if(plan.models.begin(), plan.models.end(),
                            [&](const Model& m) { return m.name == p.model; });
  GradientNorm& norm = model->norms[plan.groups[static_cast<size_t>(p.group)].norm];
  const std::string name = p.model + (norm.adapter.empty() ? "" : "." + norm.adapter);
  if (!norm.squares.exists())
    norm.squares =
        plan.storage.add_flat(name + ".squares", Category::kResults, plan.precision.scalar);
  if (p.squares.segment < 0) p.squares = plan.storage.append(norm.squares, 1);
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

}  // namespace

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
    add(r.mean_sums);
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
      if (!v) return;  // the step knows the weights before: see loss_weights.hpp
      if (const ValueId own = view.live_out(v, stage_of(*w.graph, v)))
        sums.push_back(bind_or_accumulate(g, plan, name, own, buffer, plan.results.dtype));
    };
    add("loss_sum", w.results[m].loss_sum, model.loss_sum);
    add("weight_sum", w.results[m].weight_sum, model.weight_sum);
    add("mean_sums", w.results[m].mean_sums, model.mean_sums);
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
    plan.metrics.push_back(
        {s.name, s.item, s.model, allocate(s.state), s.has_weights, s.factor, s.adapter});
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
