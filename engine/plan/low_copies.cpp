#include "engine/plan/low_copies.hpp"

#include <algorithm>

#include "engine/plan/quantized_weights.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/precision.hpp"
#include "engine/program/quantize.hpp"

namespace plait::plan {

using program::Graph;
using program::make_shape;
using program::Op;
using program::ValueId;

namespace {

// The ops that cast a value to the low type.
std::vector<size_t> low_casts(const Graph& g, const Plan& plan, ValueId v) {
  std::vector<size_t> all;
  for (const int32_t r : g.readers(v)) {
    const Op& op = g.ops()[static_cast<size_t>(r)];
    if (program::is_float_cast(g, op) && g.shape(op.out[0]).dtype == plan.precision.low)
      all.push_back(static_cast<size_t>(r));
  }
  return all;
}

}  // namespace

void note_low_reads(PlanDraft& plan, const TracedModels& traced) {
  if (!plan.precision.is_mixed()) return;
  for (Parameter& p : plan.parameters)
    for (const Tracer* tracer : {traced.train.get(), traced.evaluate.get(), traced.decode.get()})
      if (const ValueId v = tracer ? tracer->parameter_value(p.name) : 0) {
        std::vector<size_t> casts = low_casts(tracer->graph(), plan, v);
        if (tracer == traced.decode.get() && quantizes(plan))
          std::erase_if(casts, [&](size_t i) {
            return program::only_quantized(tracer->graph(), tracer->graph().ops()[i].out[0]);
          });
        p.read_low = p.read_low || !casts.empty();
      }
}

void read_low_copies(const Plan& plan, TracedStep& w) {
  Graph& g = *w.graph;
  for (const ParameterUse& use : w.parameter_uses) {
    const Parameter& p = *use.parameter;
    if (p.low.segment < 0) continue;
    ValueId low = 0;
    for (const size_t i : low_casts(g, plan, use.value)) {
      plait_shape shape = g.shape(use.value);
      shape.dtype = plan.precision.low;
      if (!low) low = g.persistent(p.name + ", low", shape, p.low);
      const ValueId cast = g.ops()[i].out[0];
      for (const int32_t r : std::vector<int32_t>(g.readers(cast))) {
        const auto reader = static_cast<size_t>(r);
        for (size_t k = 0; k < g.ops()[reader].in.size(); ++k)
          if (g.ops()[reader].in[k] == cast) g.set_input(reader, k, low);
      }
    }
  }
}

ValueId low_copy(Graph& g, const ParameterGroup& group, int64_t first, const plait_shape& like) {
  if (!group.low.exists() || group.is_split()) return 0;
  plait_shape shape = like;
  shape.dtype = group.low.dtype;
  return g.persistent(group.name + ".low", shape, group.low.at(first));
}

void update_low_copy(Graph& g, const ParameterGroup& group, int64_t first, ValueId parameters) {
  if (const ValueId low = low_copy(g, group, first, g.shape(parameters))) g.assign(low, parameters);
}

std::unique_ptr<Graph> write_refresh_low(const Plan& plan) {
  auto graph = std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar);
  for (const ParameterGroup& group : plan.groups) {
    if (!group.low.exists() || group.is_split() || group.low.elements == 0) continue;
    graph->scope = group.name;
    update_low_copy(
        *graph, group, 0,
        flat(*graph, group.name + ".parameters", group.parameters, 0, group.parameters.elements));
  }
  for (const Parameter& p : plan.parameters) {
    if (!p.frozen || p.low.segment < 0 || p.is_split()) continue;
    graph->scope = p.name;
    const ValueId low = graph->persistent(
        p.name + ", low", make_shape(plan.precision.low, {p.stored_elements}), p.low);
    graph->assign(
        low, graph->persistent(p.name, make_shape(p.shape.dtype, {p.stored_elements}), p.value));
  }
  return graph;
}

}  // namespace plait::plan
