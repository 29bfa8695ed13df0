#include "engine/plan/frozen_numbers.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/precision.hpp"
#include "engine/program/quantize.hpp"

namespace plait::plan {

using program::attr;
using program::Graph;
using program::make_shape;
using program::Op;
using program::ValueId;

namespace {

// How a program reads a weight, or what it is cast to.
struct Reads {
  bool products = false, rows = false;
};

void add_reads(const Graph& g, ValueId v, Reads& reads) {
  for (const int32_t r : g.readers(v)) {
    const Op& op = g.ops()[static_cast<size_t>(r)];
    if (program::is_float_cast(g, op)) {
      add_reads(g, op.out[0], reads);
      continue;
    }
    const auto use = op.def && op.def->weight_use ? op.def->weight_use(g, op) : std::nullopt;
    if (!use || op.in[use->weight] != v) continue;
    if (op.def->stays_wide && op.def->stays_wide(op)) continue;
    (use->is_table ? reads.rows : reads.products) = true;
  }
}

}  // namespace

void note_frozen_numbers(PlanDraft& plan, const TracedModels& traced) {
  if (plan.precision.frozen_format.empty()) return;
  for (Parameter& p : plan.parameters) {
    if (!p.frozen || !p.adapter.empty() || p.shape.ndim != 2) continue;
    Reads reads;
    for (const Tracer* tracer : {traced.train.get(), traced.evaluate.get(), traced.decode.get()})
      if (const ValueId v = tracer ? tracer->parameter_value(p.name) : 0)
        add_reads(tracer->graph(), v, reads);
    if (reads.products && !reads.rows) p.format = plan.precision.frozen_format;
  }
}

namespace {

plait_shape own_shape(const Plan& plan, const Parameter& p) {
  return local_shape(plan, p.shape, p.sharded ? p.shard_dim : -1);
}

}  // namespace

kit::QuantRow row_of(const Plan& plan, const Parameter& p) {
  return {p.format == "nf4" ? kit::QuantFormat::kNf4 : kit::QuantFormat::kInt8,
          own_shape(plan, p).dims[1]};
}

plait_shape numbers_shape(const Plan& plan, const Parameter& p) {
  return make_shape(PLAIT_U8, {own_shape(plan, p).dims[0], row_of(plan, p).bytes()});
}

plait_shape scales_shape(const Plan& plan, const Parameter& p) {
  return make_shape(PLAIT_F32, {own_shape(plan, p).dims[0], row_of(plan, p).floats()});
}

NumberedValue numbers_of(Graph& g, const Plan& plan, const Parameter& p) {
  return {g.persistent(p.name + ", " + p.format, numbers_shape(plan, p), p.numbers),
          g.persistent(p.name + ", scales", scales_shape(plan, p), p.scales)};
}

ValueId dequantized(Graph& g, const Plan& plan, const Parameter& p, const NumberedValue& v) {
  return g.apply1("dequantize", {v.numbers, v.scales},
                  {attr("format", p.format), attr("columns", row_of(plan, p).columns),
                   attr("dtype", static_cast<int64_t>(p.shape.dtype))});
}

void assign_numbers(Graph& g, const Parameter& p, const NumberedValue& target, ValueId weight) {
  const std::vector<ValueId> made = g.apply("quantize", {weight}, {attr("format", p.format)});
  g.value(made[0]).alias_of = target.numbers;
  g.value(made[1]).alias_of = target.scales;
}

namespace {

// In front of each op that still reads `weight`, one that makes it whole.
void dequantize_for_readers(Graph& g, const Plan& plan, const Parameter& p, ValueId weight,
                            const NumberedValue& numbers) {
  const size_t n = g.ops().size();
  std::vector<size_t> order;
  for (size_t i = 0; i < n; ++i) {
    const std::vector<ValueId> in = g.ops()[i].in;
    const bool unread_cast = g.ops()[i].out.size() == 1 && !g.is_output(g.ops()[i].out[0]) &&
                             program::is_float_cast(g, g.ops()[i]) &&
                             g.readers(g.ops()[i].out[0]).empty();
    if (!unread_cast && std::find(in.begin(), in.end(), weight) != in.end()) {
      g.write_like(g.ops()[i]);
      order.push_back(g.ops().size());
      const ValueId whole = dequantized(g, plan, p, numbers);
      for (size_t k = 0; k < in.size(); ++k)
        if (in[k] == weight) g.set_input(i, k, whole);
    }
    order.push_back(i);
  }
  if (order.size() > n) g.reorder(order);
}

}  // namespace

void read_frozen_numbers(const Plan& plan, TracedStep& w) {
  Graph& g = *w.graph;
  std::map<ValueId, const Parameter*> parameter_of;
  std::set<ValueId> weights;
  for (const ParameterUse& use : w.parameter_uses) {
    if (!use.parameter->is_quantized() || g.readers(use.value).empty()) continue;
    parameter_of[use.value] = use.parameter;
    weights.insert(use.value);
  }
  std::map<ValueId, NumberedValue> made;
  const auto numbers = [&](ValueId v) {
    const auto [at, first] = made.try_emplace(v);
    if (first) at->second = numbers_of(g, plan, *parameter_of.at(v));
    return at->second;
  };
  program::quantize_products(g, weights, [&](ValueId v) {
    const NumberedValue of = numbers(v);
    return program::QuantizedRows{of.numbers, of.scales, parameter_of.at(v)->format};
  });
  for (const auto& [v, p] : parameter_of) dequantize_for_readers(g, plan, *p, v, numbers(v));
}

}  // namespace plait::plan
