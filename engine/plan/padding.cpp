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

// The inputs of the rule before the first step, of an element that is padding. A rate of 0 would
// hide what a schedule or a host can make of the rule later.
std::map<ValueId, double> first_inputs(const ParameterGroup& group, const Graph& rule) {
  std::map<ValueId, double> inputs;
  for (ValueId v = 1; v < rule.n_values(); ++v) {
    const program::Value& value = rule.value(v);
    if (value.producer >= 0) continue;
    if (value.name == "learning_rate")
      inputs[v] = group.learning_rate != 0 ? group.learning_rate : 1;
    if (value.name == "schedule_factor") inputs[v] = 1;
    for (const OptimizerState& s : group.states)
      if (value.name == group.name + "." + s.name) inputs[v] = s.initial;
  }
  return inputs;
}

}  // namespace

void check_padding_stays_zero(const Plan& plan, const ParameterGroup& group, const Graph& rule) {
  const Parameter* p = padded_parameter(plan, group);
  if (!p) return;
  std::map<ValueId, double> inputs = first_inputs(group, rule);
  ValueId step_at = 1;
  while (rule.value(step_at).name != "step") ++step_at;
  // One step after the other, as in a run: a rule may compare a state with the step. Some rules
  // begin in another way than they go on.
  constexpr int kSteps = 100;
  for (int step = 1; step <= kSteps; ++step) {
    inputs[step_at] = step;
    const std::vector<double> values = program::evaluate_element(rule, inputs);
    for (ValueId v = 1; v < rule.n_values(); ++v) {
      const ValueId updated = rule.storage_of(v);
      if (updated == v) continue;  // no update in place
      const program::Value& before = rule.value(updated);
      if (before.name != group.name) {
        inputs[updated] = values[v];
      } else if (!(values[v] == 0)) {
        const OptimizerOf optimizer = optimizer_of(plan, p->model);
        const auto shards = static_cast<long>(plan.grid.tensor());
        fail(PLAIT_ERR_PLUGIN,
             strf("[plugin %s] optimizer '%s' (%s) makes %.3g of an element whose parameter and "
                  "gradient are 0 in step %d, expected 0: the %ld tensor ranks share %ld entries "
                  "of '%s', and zeros that fill up the shards must stay; use another optimizer for "
                  "this parameter, let topology.tensor divide %ld, or tell the optimizer's author",
                  optimizer.plugin.c_str(), optimizer.item.name,
                  optimizer.config.origin.text().c_str(),
                  std::isnan(values[v]) ? NAN : values[v],  // without the sign of a NaN
                  step, shards, static_cast<long>(p->shape.dims[p->shard_dim]), p->name.c_str(),
                  static_cast<long>(p->shape.dims[p->shard_dim])));
      }
    }
  }
}

}  // namespace plait::plan
