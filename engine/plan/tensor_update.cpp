#include "engine/plan/tensor_update.hpp"

#include <string>
#include <utility>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/plugin_outputs.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/method_updates.hpp"
#include "engine/plan/parameter_scope.hpp"
#include "engine/plan/tensor_rule.hpp"
#include "engine/program/c_builder.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {
namespace {

using program::Graph;
using program::make_shape;
using program::ValueId;

// The optimizer's rule of one parameter. Its inputs are TensorUpdateInputs, in the order
// in which begin_tensor_update() has them.
TensorRule optimizer_rule(const PlanDraft& plan, const ParameterGroup& group, const Parameter& p) {
  const OptimizerOf optimizer = optimizer_of(plan, p);
  const plait_optimizer_item& item = optimizer.item;
  TensorRule rule(plan, p, group.name,
                  "[plugin " + optimizer.plugin + "] optimizer '" + item.name + "'");
  if (group.low_states && !has_method_rules(plan, p)) rule.keep_low_states();
  Graph& g = rule.graph();
  const plait_shape scalar = make_shape(plan.precision.scalar, {});
  const program::Dims dims = program::dims_of(p.shape);
  const ValueId parameter = rule.input(p.name, make_shape(plan.precision.parameter, dims), true);
  const ValueId sum = rule.input("gradient", make_shape(plan.precision.gradient, dims), true);
  const ValueId mean = program::binary(g, "mul", sum, rule.input("gradient scale", scalar));
  const ValueId rate = rule.input("learning_rate", scalar),
                factor = rule.input("schedule_factor", scalar), step = rule.input("step", scalar);
  const plait_parameter_info info = info_of(p);
  const uint32_t scope =
      has_method_rules(plan, p) ? plan.of_methods.at(p.name).optimizer_scope : p.scope;
  const bool whole = scope == PLAIT_SCOPE_TENSOR;
  const plait_update update{sizeof(plait_update),
                            parameter,
                            mean,
                            rate,
                            factor,
                            step,
                            g.constant(group.weight_decay),
                            scope,
                            0,
                            whole ? &info : nullptr};
  program::BuildHooks hooks = rule.hooks();
  hooks.elementwise_only = !whole;
  program::CBuilder builder(g, hooks);
  PluginOutputs<ValueId> room(1, 0);
  const PluginCall at{optimizer.plugin, "build", "optimizer", item.name};
  check_plugin(at, "the update of '" + p.name + "' (" + optimizer.config.origin.text() + ")", [&] {
    return item.build(builder.get(), &optimizer.config.options, &update, room.data());
  });
  const ValueId result = room.take(at, "outputs, expected")[0];
  if (result == 0) rule.malformed("leaves the new parameter unset");
  if (result >= g.n_values())
    rule.malformed("sets the new parameter to " + std::to_string(result) + ", which is no value,");
  if (!program::same_dims(g.shape(result), p.shape))
    rule.malformed("makes " + program::text(g.shape(result)));
  rule.result(result, true);
  return rule;
}

}  // namespace

void declare_tensor_states(PlanDraft& plan, const ParameterGroup& group, Parameter& p) {
  p.states.clear();
  declare_rule_states(plan, group, p, optimizer_rule(plan, group, p));
}

TensorUpdate begin_tensor_update(Graph& g, PlanDraft& plan, const ParameterGroup& group,
                                 const Parameter& p, const TensorUpdateInputs& in) {
  TensorRule rule = optimizer_rule(plan, group, p);
  rule.shard(plan);
  TensorUpdate made;
  for (const TensorState& s : p.states)
    made.states.push_back(
        {g.persistent(p.name + "." + s.name, local_shape(plan, s.shape, s.shard_dim), s.at),
         0,
         {s.name, p.sharded && s.shard_dim < 0}});
  std::vector<ValueId> states, next;
  for (const NextValue& s : made.states) states.push_back(s.target);
  made.parameter = rule.write(g,
                              {g.as_type(in.parameter, plan.precision.parameter), in.gradient,
                               in.scale, in.learning_rate, in.schedule_factor, in.step},
                              states, next)[0];
  for (size_t i = 0; i < next.size(); ++i) made.states[i].next = next[i];
  return made;
}

ValueId finish_tensor_update(Graph& g, const Plan& plan, const Parameter& p,
                             const TensorUpdateInputs& in, const TensorUpdate& made) {
  std::vector<NextValue> all{{in.parameter, made.parameter}};
  for (const NextValue& s : made.states)
    if (s.next) all.push_back(s);
  const RoundedElements whole{&p, 0, in.count};
  return assign_if_finite(g, in.finite, all, 0, &plan, &whole, in.split);
}

ValueId write_tensor_update(Graph& g, PlanDraft& plan, const ParameterGroup& group,
                            const Parameter& p, const TensorUpdateInputs& in) {
  return finish_tensor_update(g, plan, p, in, begin_tensor_update(g, plan, group, p, in));
}

ValueId assign_if_finite(Graph& g, ValueId finite, const std::vector<NextValue>& all, ValueId copy,
                         const Plan* plan, const RoundedElements* rounded, SplitValue* split) {
  const auto rounds = [&](const NextValue& one) {
    return rounded && g.shape(one.target).dtype == kLowState;
  };
  std::vector<ValueId> chosen;
  for (const NextValue& one : all) {
    // A rule may make another float type than it was given.
    const uint32_t type = rounds(one) ? PLAIT_F32 : g.shape(one.target).dtype;
    const ValueId next = g.as_type(one.next, type), old = g.as_type(one.target, type);
    chosen.push_back(g.apply1("select", {finite, next, old}));
  }
  ValueId first = 0;
  const auto assign = [&](size_t i, bool low) {
    if (rounds(all[i]) != low || (split && i == 0)) return;
    const ValueId made =
        low ? assign_rounded(g, *plan, *rounded, all[i].rounded, all[i].target, chosen[i])
            : g.assign(all[i].target, chosen[i]);
    if (i == 0) first = made;
  };
  // What is rounded comes last, so that the others are written in the pass that makes them.
  for (const bool low : {false, true})
    for (size_t i = 0; i < all.size(); ++i) assign(i, low);
  if (split) first = (*split = assign_split(g, *split, chosen[0])).high;
  if (copy) g.assign(copy, chosen[0]);
  return first;
}

}  // namespace plait::plan
