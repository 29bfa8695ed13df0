#include "engine/plan/quantized_weights.hpp"

#include <algorithm>
#include <map>

#include "engine/base/error.hpp"
#include "engine/plan/compile.hpp"
#include "engine/plan/halves.hpp"
#include "engine/plan/zero.hpp"
#include "engine/program/quantize.hpp"

namespace plait::plan {

using program::Graph;
using program::ValueId;

namespace {

// The memory of a parameter's numbers and scales, for what this rank has of it.
const QuantizedWeight& weight_of(PlanDraft& plan, const Parameter& p, const plait_shape& shape) {
  std::vector<QuantizedWeight>& all = plan.generation.quantized;
  const auto index = static_cast<size_t>(&p - plan.parameters.data());
  const auto known = std::find_if(all.begin(), all.end(),
                                  [&](const QuantizedWeight& q) { return q.parameter == index; });
  if (known != all.end()) return *known;
  Graph shapes(plan.ops.get());
  const std::vector<ValueId> made =
      shapes.apply("quantize", {shapes.persistent(p.name, shape, p.value)});
  QuantizedWeight q{index, shape, shapes.shape(made[0]), shapes.shape(made[1]), {}, {}};
  int32_t& segment = plan.generation.quantized_segment;
  if (segment < 0) segment = plan.storage.add("int8 weights", Category::kQuantizedWeights);
  q.numbers = plan.storage.allocate(segment, program::bytes(q.numbers_shape));
  q.scales = plan.storage.allocate(segment, program::bytes(q.scales_shape));
  all.push_back(q);
  return all.back();
}

}  // namespace

bool quantizes(const Plan& plan) { return plan.experiment.generate.weights == "int8"; }

void read_quantized_weights(PlanDraft& plan, TracedStep& w) {
  if (!quantizes(plan)) return;
  Graph& g = *w.graph;
  std::map<ValueId, const Parameter*> parameter_of;
  std::set<ValueId> weights;
  for (const ParameterUse& use : w.parameter_uses) {
    if (use.parameter->is_quantized()) continue;
    parameter_of[use.value] = use.parameter;
    weights.insert(use.value);
  }
  program::quantize_products(g, weights, [&](ValueId v) {
    const Parameter& p = *parameter_of.at(v);
    const QuantizedWeight& q = weight_of(plan, p, g.shape(v));
    return program::QuantizedRows{g.persistent(p.name + ", int8", q.numbers_shape, q.numbers),
                                  g.persistent(p.name + ", scales", q.scales_shape, q.scales)};
  });
}

EntryPoint write_quantize(const EntryPointSource& from) {
  PlanDraft& plan = from.plan;
  EntryPoint entry{kQuantize, "the int8 weights of generation", {}};
  if (!quantizes(plan)) return entry;
  const bool are_numbers = std::any_of(plan.parameters.begin(), plan.parameters.end(),
                                       [](const Parameter& p) { return p.is_quantized(); });
  if (plan.generation.quantized.empty() && are_numbers) return entry;  // of precision.frozen
  if (plan.generation.quantized.empty())
    fail_config(
        "[generate] generate.weights = \"int8\", but no product of model '" +
        plan.generation.model +
        "' reads a parameter of two dimensions, so nothing would be quantized; leave it out");
  auto graph = std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar);
  std::map<const Parameter*, ValueId> values;
  for (const QuantizedWeight& q : plan.generation.quantized) {
    const Parameter& p = plan.parameters[q.parameter];
    graph->scope = p.name;
    const ValueId whole = values[&p] = read_whole(*graph, plan, p, q.shape);
    const std::vector<ValueId> made = graph->apply("quantize", {whole});
    graph->bind(made[0], q.numbers);
    graph->bind(made[1], q.scales);
  }
  if (plan.zero >= 3) gather_parameters(*graph, plan, values);
  entry.launches = {{plan.add(compile(kQuantize, std::move(graph), plan)), 0, -1, -1}};
  return entry;
}

}  // namespace plait::plan
