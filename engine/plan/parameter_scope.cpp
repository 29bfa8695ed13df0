#include "engine/plan/parameter_scope.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <set>
#include <unordered_map>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/plan/method_updates.hpp"
#include "engine/program/op_def.hpp"
#include "kit/shape.hpp"

namespace plait::plan {
namespace {

using program::Op;

using ParameterOf = std::unordered_map<ValueId, Parameter*>;

const Op* producer_of(const Graph& g, ValueId v) {
  const int32_t producer = g.value(v).producer;
  return producer < 0 ? nullptr : &g.ops()[static_cast<size_t>(producer)];
}

// The parameter that a value is, perhaps in another type or under other dims; nullptr: none.
Parameter* parameter_behind(const Graph& g, const ParameterOf& parameters, ValueId v) {
  const auto moves = [](const Op& op) {
    return op.def->is_view || (op.def->is_map && op.in.size() == 1 && op.map.instrs.size() == 1 &&
                               op.map.instrs[0].op == PLAIT_MAP_COPY);
  };
  for (const Op* op = producer_of(g, v); op && moves(*op); op = producer_of(g, v)) v = op->in[0];
  const auto at = parameters.find(v);
  return at == parameters.end() ? nullptr : at->second;
}

void note_tables(const Graph& g, const ParameterOf& parameters) {
  for (const Op& op : g.ops()) {
    if (!op.def->index_use) continue;
    const auto use = op.def->index_use(g, op);
    if (!use || use->labels) continue;
    if (Parameter* p = parameter_behind(g, parameters, op.in[0])) p->flags |= PLAIT_PARAMETER_TABLE;
  }
}

void note_groups(const Graph& g, const ParameterOf& parameters) {
  for (const Op& op : g.ops()) {
    const auto use = op.def->weight_use ? op.def->weight_use(g, op) : std::nullopt;
    if (!use || !use->groups) continue;
    const ValueId weight = op.in[use->weight];
    Parameter* p = parameter_behind(g, parameters, weight);
    // One that was reshaped to groups has no dimension of its own that counts them.
    if (p && kit::same_dims(p->shape, g.shape(weight))) p->flags |= PLAIT_PARAMETER_GROUPED;
  }
}

// From the model's output back to the first ops that read a matrix.
void note_outputs(const Graph& g, const ParameterOf& parameters, ValueId output) {
  std::vector<ValueId> open{output};
  std::set<ValueId> seen;
  while (!open.empty()) {
    const ValueId v = open.back();
    open.pop_back();
    const Op* op = producer_of(g, v);
    if (!op || !seen.insert(v).second) continue;
    bool matrix = false;
    for (const ValueId in : op->in)
      if (Parameter* p = parameter_behind(g, parameters, in)) {
        p->flags |= PLAIT_PARAMETER_OUTPUT;
        matrix = matrix || p->shape.ndim >= 2;
      }
    if (!matrix) open.insert(open.end(), op->in.begin(), op->in.end());
  }
}

const config::OptimizerConfig& config_of(const Plan& plan, const Parameter& p) {
  const auto& models = plan.experiment.models;
  return *std::find_if(models.begin(), models.end(), [&](const config::ModelConfig& m) {
            return m.name == p.model;
          })->optimizer;
}

uint32_t scope_of(const Plan& plan, const OptimizerOf& optimizer, const Parameter& p) {
  const plait_optimizer_item& item = optimizer.item;
  if (item.struct_size < offsetof(plait_optimizer_item, scope) + sizeof(item.scope) || !item.scope)
    return PLAIT_SCOPE_ELEMENT;
  const plait_parameter_info info = info_of(p);
  uint32_t scope = PLAIT_SCOPE_ELEMENT;
  const auto call = [&] {
    return item.scope(plan.registry->host_of(&item), &optimizer.config.options, &info, &scope);
  };
  check_plugin({optimizer.plugin, "scope", "optimizer", item.name},
               "the rule of parameter '" + p.name + "' (" + optimizer.config.origin.text() + ")",
               call);
  if (scope > PLAIT_SCOPE_TENSOR)
    fail(PLAIT_ERR_PLUGIN, "[plugin " + optimizer.plugin + "] scope() of optimizer '" + item.name +
                               "' gives " + std::to_string(scope) + " for parameter '" + p.name +
                               "', expected PLAIT_SCOPE_ELEMENT (0) or PLAIT_SCOPE_TENSOR (1); "
                               "tell its author");
  return scope;
}

}  // namespace

OptimizerOf optimizer_of(const Plan& plan, const config::ItemConfig& rule) {
  const plait_optimizer_item& item = plan.registry->optimizer(rule.type);
  return {item, rule, plan.registry->plugin_of(&item)};
}

OptimizerOf optimizer_of(const Plan& plan, const Parameter& p) {
  return optimizer_of(plan, config_of(plan, p).rule(p.setting));
}

OptimizerOf optimizer_of(const Plan& plan, const ParameterGroup& g) {
  const config::ModelConfig& model = plan.experiment.models[static_cast<size_t>(g.model)];
  return optimizer_of(plan, model.optimizer->rule(g.setting));
}

plait_parameter_info info_of(const Parameter& p) {
  return {sizeof(plait_parameter_info), p.name.c_str(), p.shape, p.flags, 0};
}

void note_parameter_flags(PlanDraft& plan, const Tracer& training) {
  const Graph& g = training.graph();
  ParameterOf parameters;
  for (Parameter& p : plan.parameters)
    if (const ValueId v = training.parameter_value(p.name)) parameters[v] = &p;
  note_tables(g, parameters);
  note_groups(g, parameters);
  for (const Tracer::Result& r : training.results())
    if (r.output) note_outputs(g, parameters, r.output);
}

void choose_scopes(PlanDraft& plan) {
  for (Parameter& p : plan.parameters) {
    if (p.frozen) continue;
    const auto& groups = config_of(plan, p).groups;
    if (p.setting >= 0 && groups[static_cast<size_t>(p.setting)].elementwise)
      p.flags |= PLAIT_PARAMETER_ELEMENTWISE;
    p.scope = scope_of(plan, optimizer_of(plan, p), p);
    if (!has_method_rules(plan, p)) continue;
    plan.of_methods.at(p.name).optimizer_scope = p.scope;
    p.scope = PLAIT_SCOPE_TENSOR;
  }
}

}  // namespace plait::plan
