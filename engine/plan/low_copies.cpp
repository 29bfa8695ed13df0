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
        p.read_low = (p.read_low || !casts.empty()) && !p.is_quantized();
      }
}

namespace {

// One parameter's copy in a program that may read it.
class CopyReader {
 public:
  CopyReader(const Plan& plan, TracedStep& w, const ParameterUse& use)
      : plan_(plan), w_(w), g_(*w.graph), use_(use) {}

  void read_in_place_of_casts() {
    if (!low_casts(g_, plan_, use_.value).empty()) replace_casts(use_.value, copy());
    for (const int32_t r : std::vector<int32_t>(g_.readers(use_.value)))
      if (const auto i = static_cast<size_t>(r); only_moves(i) && is_cast_alone(g_.ops()[i].out[0]))
        move_copy(i);
  }

 private:
  ValueId copy() {
    if (low_) return low_;
    plait_shape shape = g_.shape(use_.value);
    shape.dtype = plan_.precision.low;
    return low_ = g_.persistent(use_.parameter->name + ", low", shape, use_.parameter->low);
  }
  // What reads casts of `v` reads `low`.
  void replace_casts(ValueId v, ValueId low) {
    for (const size_t i : low_casts(g_, plan_, v)) {
      const ValueId cast = g_.ops()[i].out[0];
      for (const int32_t r : std::vector<int32_t>(g_.readers(cast))) {
        const auto reader = static_cast<size_t>(r);
        for (size_t k = 0; k < g_.ops()[reader].in.size(); ++k)
          if (g_.ops()[reader].in[k] == cast) g_.set_input(reader, k, low);
      }
    }
  }
  // It computes nothing, so it may as well move the copies of elements.
  bool only_moves(size_t i) const {
    const Op& op = g_.ops()[i];
    return !op.def->is_map && !op.def->is_view && op.in.size() == 1 && op.out.size() == 1 &&
           op.alias.empty() && op.def->precision == program::PrecisionClass::kFollow &&
           program::flops_of(g_, op) == 0;
  }
  bool is_cast_alone(ValueId v) const {
    const size_t n = g_.readers(v).size();
    return n > 0 && low_casts(g_, plan_, v).size() == n && !g_.is_output(v) &&
           !g_.value(v).alias_of &&
           std::none_of(w_.outputs.begin(), w_.outputs.end(),
                        [&](const auto& o) { return o.second == v; });
  }
  void move_copy(size_t i) {
    const ValueId moved = g_.ops()[i].out[0];
    replace_casts(moved, moved);
    g_.set_input(i, 0, copy());
    g_.value(moved).shape.dtype = plan_.precision.low;
  }

  const Plan& plan_;
  TracedStep& w_;
  Graph& g_;
  const ParameterUse& use_;
  ValueId low_ = 0;
};

}  // namespace

void read_low_copies(const Plan& plan, TracedStep& w) {
  for (const ParameterUse& use : w.parameter_uses)
    if (use.parameter->low.segment >= 0) CopyReader(plan, w, use).read_in_place_of_casts();
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
