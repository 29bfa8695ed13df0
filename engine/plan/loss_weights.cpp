#include "engine/plan/loss_weights.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/passes.hpp"

namespace plait::plan {

using program::binary;
using program::Graph;
using program::make_shape;
using program::ValueId;

int64_t n_loss_weights(const Plan& plan) {
  int64_t n = 0;
  for (const Model& m : plan.models) n += m.n_weights;
  return n;
}

BufferRef loss_factor(const Plan& plan, const Model& model, size_t i) {
  return plan.loss_weights.at(n_loss_weights(plan) + model.first_weight + static_cast<int64_t>(i));
}

void make_loss_weights(PlanDraft& plan, const Tracer& train) {
  int64_t n = 0;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    const Tracer::Result& r = train.results()[m];
    if (r.factors.empty()) continue;
    plan.models[m].first_weight = n;
    plan.models[m].n_weights = static_cast<int64_t>(r.weights.size());
    n += plan.models[m].n_weights;
  }
  if (n == 0) return;
  plan.loss_weights =
      plan.storage.add_flat("weights of losses", Category::kResults, plan.precision.scalar);
  plan.storage.append(plan.loss_weights, 2 * n);
}

namespace {

// The part of a feed that a program reads, with memory of its own: in a pipeline the fields of the
// feed have none.
Feed own_feed(PlanDraft& plan, Graph& g, const Feed& whole) {
  Feed own;
  own.batch = whole.batch;
  const int32_t segment = plan.storage.add("inputs of weights of losses", Category::kInputs, 1);
  const auto place = [&](program::Value& v) {
    return v.buffer = plan.storage.allocate(segment, program::bytes(v.shape));
  };
  for (ValueId id = 1; id < g.n_values(); ++id) {
    program::Value& v = g.value(id);
    if (v.buffer.segment != whole.weight.segment || v.role != program::Role::kPersistent ||
        g.readers(id).empty())
      continue;
    const auto is_it = [&](const Field& f) { return f.buffer == v.buffer; };
    if (v.buffer == whole.weight) {
      own.weight = place(v);
    } else if (v.buffer == whole.counter) {
      own.counter = place(v);
    } else if (const auto f = std::find_if(whole.fields.begin(), whole.fields.end(), is_it);
               f != whole.fields.end()) {
      own.fields.push_back(*f);
      own.fields.back().buffer = place(v);
    } else {
      fail_internal("[plan] an input that no feed knows");
    }
  }
  return own;
}

// The weights of one micro-batch. Tensor ranks count the same samples, and of the ranks of a
// pipeline the one that has the losses. Null: this rank counts nothing.
std::unique_ptr<Graph> write_count(const Plan& plan, const Tracer& train) {
  auto graph = std::make_unique<Graph>(train.graph());
  bool counts = false;
  for (size_t m = 0; m < plan.models.size(); ++m) {
    const Model& model = plan.models[m];
    const Tracer::Result& r = train.results()[m];
    if (model.n_weights == 0) continue;
    if (plan.grid.pipeline() > 1 &&
        plan.pipeline.schedule.shape.rank_of(stage_of(*graph, r.loss_sum)) != plan.at.pipeline)
      continue;
    graph->scope = model.name + ".losses";
    for (size_t i = 0; i < r.weights.size(); ++i)
      bind_or_accumulate(*graph, plan, "weights of losses", r.weights[i],
                         plan.loss_weights.at(model.first_weight + static_cast<int64_t>(i)),
                         plan.loss_weights.dtype);
    counts = true;
  }
  if (!counts) return nullptr;
  program::eliminate_dead_ops(*graph);
  return graph;
}

std::unique_ptr<Graph> write_factors(PlanDraft& plan) {
  auto graph = std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar);
  Graph& g = *graph;
  g.scope = "replicas";
  const auto all = [&] { return flat(g, "weights", plan.loss_weights, 0, n_loss_weights(plan)); };
  sum_over(g, plan, topology::Axis::kData, "weights of losses", all());
  sum_over(g, plan, topology::Axis::kPipeline, "weights of losses, by stage", all());
  const plait_shape scalar = make_shape(plan.loss_weights.dtype, {});
  for (const Model& model : plan.models) {
    if (model.n_weights == 0) continue;
    g.scope = model.name + ".losses";
    std::vector<ValueId> weights;
    for (int64_t i = 0; i < model.n_weights; ++i)
      weights.push_back(
          g.persistent("weights", scalar, plan.loss_weights.at(model.first_weight + i)));
    // Weights may be negative, such as advantages.
    std::vector<ValueId> sizes;
    for (const ValueId w : weights)
      sizes.push_back(binary(g, "max", w, binary(g, "sub", g.constant(0), w)));
    ValueId most = sizes[0];
    for (size_t i = 1; i < sizes.size(); ++i) most = binary(g, "max", most, sizes[i]);
    for (size_t i = 0; i < weights.size(); ++i)
      g.bind(g.apply1("select", {binary(g, "lt", g.constant(0), sizes[i]),
                                 binary(g, "div", most, weights[i]), g.constant(0)}),
             loss_factor(plan, model, i));
    g.bind(most, model.weight_sum);
  }
  return graph;
}

}  // namespace

void write_loss_weights(const EntryPointSource& from, EntryPoint& step, size_t before) {
  PlanDraft& plan = from.plan;
  if (!plan.loss_weights.exists()) return;
  constexpr int32_t kOrder = -1;  // of the programs of a step, before the forward pass
  std::vector<Launch> launches;
  if (auto count = write_count(plan, *from.traced.train)) {
    const auto feed = static_cast<int32_t>(step.stage_feeds.size());
    step.stage_feeds.push_back(own_feed(plan, *count, plan.train_feed));
    Program program = compile("count_weights", std::move(count), plan);
    program.order = kOrder;
    const int32_t index = plan.add(std::move(program));
    for (int64_t m = 0; m < plan.accumulation; ++m) launches.push_back({index, 0, feed, m});
  }
  Program factors = compile("loss_factors", write_factors(plan), plan);
  factors.order = kOrder;
  launches.push_back({plan.add(std::move(factors)), 0, -1, -1});
  step.launches.insert(step.launches.begin() + static_cast<std::ptrdiff_t>(before),
                       launches.begin(), launches.end());
}

}  // namespace plait::plan
