#include "engine/plan/padding.hpp"

#include <cmath>
#include <map>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/parameter_scope.hpp"
#include "engine/program/evaluate_element.hpp"

namespace plait::plan {
namespace {

using program::Graph;
using program::ValueId;

// A parameter of the group whose shards are padded on some rank; nullptr: none.
const Parameter* padded_parameter(const Plan& plan, const ParameterGroup& group) {
  for (const Parameter& p : plan.parameters) {
    if (p.group < 0 || &plan.groups[static_cast<size_t>(p.group)] != &group || !p.sharded) continue;
    if (p.shape.dims[p.shard_dim] % plan.grid.tensor() != 0) return &p;
  }
  return nullptr;
}

// The rule's inputs that steps do not change by themselves, of an element that is padding; what is
// missing is 0. A rate of 0 would hide what a schedule or a host can make of the rule later.
// factor: where the schedule's factor is.
std::map<ValueId, double> first_inputs(const ParameterGroup& group, const ElementRule& rule,
                                       ValueId& factor) {
  std::map<ValueId, double> inputs;
  for (ValueId v = 1; v < rule.graph.n_values(); ++v) {
    const program::Value& value = rule.graph.value(v);
    if (v == rule.parameter || v == rule.gradient || v == rule.step) continue;
    if (value.name == "learning_rate")
      inputs[v] = group.learning_rate != 0 ? group.learning_rate : 1;
    if (value.name == "schedule_factor") factor = v;
    for (const OptimizerState& s : group.states)
      if (value.name == group.name + "." + s.name) inputs[v] = s.initial;
  }
  return inputs;
}

}  // namespace

std::optional<PaddingFault> padding_fault(const Plan& plan, const ParameterGroup& group,
                                          const ElementRule& rule) {
  const Parameter* p = padded_parameter(plan, group);
  if (!p) return std::nullopt;
  const Graph& g = rule.graph;
  ValueId factor = 0;
  std::map<ValueId, double> inputs = first_inputs(group, rule, factor);
  // One step after the other, as in a run: a rule may compare a state with the step. Some rules
  // begin in another way than they go on, and schedules end with smaller factors.
  constexpr int kSteps = 100, kDecay = 90;
  for (int step = 1; step <= kSteps; ++step) {
    inputs[rule.step] = step;
    if (factor) inputs[factor] = step <= kDecay ? 1 : 0.1;
    const std::vector<double> values = program::evaluate_element(g, inputs);
    for (ValueId v = 1; v < g.n_values(); ++v) {
      const ValueId updated = g.storage_of(v);
      if (updated == v) continue;  // no update in place
      if (updated != rule.parameter)
        inputs[updated] = values[v];
      else if (!(values[v] == 0))
        return PaddingFault{p, step, values[v]};
    }
  }
  return std::nullopt;
}

void check_padding_stays_zero(const Plan& plan, const ParameterGroup& group,
                              const ElementRule& rule) {
  const std::optional<PaddingFault> fault = padding_fault(plan, group, rule);
  if (!fault) return;
  const Parameter& p = *fault->parameter;
  const OptimizerOf optimizer = optimizer_of(plan, p);
  const auto shards = static_cast<long>(plan.grid.tensor()),
             entries = static_cast<long>(p.shape.dims[p.shard_dim]);
  fail(PLAIT_ERR_PLUGIN,
       strf("[plugin %s] optimizer '%s' (%s) makes %.3g of an element whose parameter and gradient "
            "are 0 in step %d, expected 0: the %ld tensor ranks share %ld entries of '%s', and "
            "zeros that fill up the shards must stay; use another optimizer for this parameter, "
            "let topology.tensor divide %ld, or tell the optimizer's author",
            optimizer.plugin.c_str(), optimizer.item.name, optimizer.config.origin.text().c_str(),
            std::isnan(fault->value) ? NAN : fault->value,  // without the sign of a NaN
            fault->step, shards, entries, p.name.c_str(), entries));
}

}  // namespace plait::plan
