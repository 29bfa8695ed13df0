#include "engine/plan/method_updates.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/plan/step_programs.hpp"
#include "engine/plan/tensor_rule.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/c_builder.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {
namespace {

using program::attr;
using program::Graph;
using program::make_shape;
using program::ValueId;

const MethodParameter& of_method(const PlanDraft& plan, const Parameter& p) {
  return plan.of_methods.at(p.name);
}

const config::AdapterConfig& adapter_of(const PlanDraft& plan, const Parameter& p) {
  const std::string& entry = of_method(plan, p).entry;
  for (const config::ModelConfig& m : plan.experiment.models)
    for (const config::AdapterConfig& a : m.adapters)
      if (key_of(a) == entry) return a;
  fail_internal("[plan] '" + p.name + "' belongs to " + entry + ", which is no adapter");
}

// The targets of each adapter with rules, in the order in which the model was traced: on all ranks
// the same.
std::map<std::string, std::vector<std::string>> targets_of(const PlanDraft& plan,
                                                           const std::string& model) {
  std::map<std::string, std::vector<std::string>> all;
  for (const Parameter& p : plan.parameters) {
    if (p.model != model || !has_method_rules(plan, p)) continue;
    const MethodParameter& its = of_method(plan, p);
    std::vector<std::string>& own = all[its.entry];
    if (std::find(own.begin(), own.end(), its.target) == own.end()) own.push_back(its.target);
  }
  return all;
}

// The rules of one parameter's method.
class MethodRules {
 public:
  MethodRules(const PlanDraft& plan, const Parameter& p, size_t n_targets)
      : plan_(plan),
        p_(p),
        known_(of_method(plan, p)),
        config_(adapter_of(plan, p)),
        item_(plan.registry->peft(config_.type)),
        plugin_(plan.registry->plugin_of(&item_)),
        n_targets_(static_cast<int64_t>(n_targets)) {}

  // Its result: scores (n), or none.
  TensorRule score() const {
    TensorRule rule = begin();
    plait_peft_update u = update_of(rule);
    ValueId scores = 0;
    if (item_.score)
      call(rule, "score",
           [&](plait_builder* b) { return item_.score(b, &config_.options, &u, &scores); });
    if (scores) {
      rule.check_value(scores);
      const plait_shape& s = rule.graph().shape(scores);
      if (s.ndim != 1 || !program::is_float(s.dtype))
        rule.malformed("gives the scores " + program::text(s) + ", expected floats (n),");
      scores = rule.graph().as_type(scores, plan_.precision.parameter);
    }
    rule.result(scores, false);
    return rule;
  }

  // Its result: the parameter. Further inputs: scores (n), all scores (T,n), if there are any.
  TensorRule update() const {
    TensorRule rule = begin();
    plait_peft_update u = update_of(rule);
    if (const int64_t n = known_.n_scores) {
      const uint32_t type = plan_.precision.parameter;
      u.scores = rule.input("scores", make_shape(type, {n}));
      u.all_scores = rule.input("all scores", make_shape(type, {n_targets_, n}));
    }
    ValueId made = u.parameter;
    if (item_.update)
      call(rule, "update",
           [&](plait_builder* b) { return item_.update(b, &config_.options, &u, &made); });
    rule.check_value(made);
    const plait_shape& s = rule.graph().shape(made);
    if (!program::same_dims(s, p_.shape) || !program::is_float(s.dtype))
      rule.malformed("makes " + program::text(s));
    rule.result(made, true);
    return rule;
  }

 private:
  TensorRule begin() const {
    return {plan_,
            p_,
            p_.name,
            "[plugin " + plugin_ + "] PEFT method '" + item_.name + "'",
            std::string(item_.name) + ".",
            p_.states};
  }
  plait_peft_update update_of(TensorRule& rule) const {
    const plait_shape scalar = make_shape(plan_.precision.scalar, {});
    const program::Dims dims = program::dims_of(p_.shape);
    plait_peft_update u{};
    u.struct_size = sizeof u;
    u.name = known_.own_name.c_str();
    u.parameter = rule.input(p_.name, make_shape(plan_.precision.parameter, dims), true);
    const ValueId sum = rule.input("gradient", make_shape(plan_.precision.gradient, dims), true);
    u.gradient = program::binary(rule.graph(), "mul", sum, rule.input("gradient scale", scalar));
    u.step = rule.input("step", scalar);
    u.total_steps = plan_.total_steps;
    u.n_targets = static_cast<uint32_t>(n_targets_);
    return u;
  }
  template <class F>
  void call(TensorRule& rule, const char* function, F&& f) const {
    const program::BuildHooks hooks = rule.hooks();
    program::CBuilder builder(rule.graph(), hooks);
    const PluginCall at{plugin_, function, "PEFT method", item_.name};
    check_plugin(
        at,
        "the update of '" + p_.name + "' by " + config_.path + " (" + config_.origin.text() + ")",
        [&] { return f(builder.get()); });
  }

  const PlanDraft& plan_;
  const Parameter& p_;
  const MethodParameter& known_;
  const config::AdapterConfig& config_;
  const plait_peft_item& item_;
  const std::string plugin_;
  const int64_t n_targets_;
};

// All parameters of an adapter have as many scores, or none.
void set_n_scores(PlanDraft& plan, const std::string& entry) {
  const auto gives = [&](const auto& one) {
    return one.second.entry == entry && one.second.n_scores > 0;
  };
  const auto first = std::find_if(plan.of_methods.begin(), plan.of_methods.end(), gives);
  if (first == plan.of_methods.end()) return;
  const int64_t n = first->second.n_scores;
  for (auto& [name, its] : plan.of_methods) {
    if (its.entry != entry) continue;
    if (its.n_scores > 0 && its.n_scores != n)
      fail(PLAIT_ERR_PLUGIN, "[plan] the method of " + entry + " gives '" + name + "' " +
                                 std::to_string(its.n_scores) + " scores and '" + first->first +
                                 "' " + std::to_string(n) +
                                 ", expected as many for all parameters; tell its author");
    its.n_scores = n;
  }
}

}  // namespace

bool has_rules(const plait_peft_item& item) {
  return item.struct_size >= offsetof(plait_peft_item, update) + sizeof item.update &&
         (item.score || item.update);
}

bool has_method_rules(const PlanDraft& plan, const Parameter& p) {
  return !p.frozen && plan.of_methods.contains(p.name) &&
         has_rules(plan.registry->peft(adapter_of(plan, p).type));
}

void declare_method_states(PlanDraft& plan) {
  for (const Model& model : plan.models) {
    if (!model.trained) continue;
    const auto targets = targets_of(plan, model.name);
    const auto for_each = [&](const std::string& entry, auto&& call) {
      for (Parameter& p : plan.parameters)
        if (p.group >= 0 && has_method_rules(plan, p) && of_method(plan, p).entry == entry) call(p);
    };
    for (const auto& [entry, own] : targets) {
      const size_t n = own.size();
      for_each(entry, [&](Parameter& p) {
        TensorRule rule = MethodRules(plan, p, n).score();
        if (const ValueId scores = rule.result_at(0))
          plan.of_methods.at(p.name).n_scores = rule.graph().shape(scores).dims[0];
        declare_rule_states(plan, plan.groups[static_cast<size_t>(p.group)], p, rule);
      });
      set_n_scores(plan, entry);
      for_each(entry, [&](Parameter& p) {
        const TensorRule rule = MethodRules(plan, p, n).update();
        declare_rule_states(plan, plan.groups[static_cast<size_t>(p.group)], p, rule);
      });
    }
  }
}

MethodUpdates::MethodUpdates(Graph& g, PlanDraft& plan, const std::string& model)
    : g_(g), plan_(plan), model_(model), targets_(targets_of(plan, model)) {}

namespace {

// What the rules of a parameter read of its update.
std::vector<ValueId> inputs_of(Graph& g, const PlanDraft& plan, const TensorUpdateInputs& in,
                               ValueId parameter) {
  return {g.as_type(parameter, plan.precision.parameter), in.gradient, in.scale, in.step};
}

// The states as the rules before have left them.
std::vector<ValueId> states_of(const TensorUpdate& made) {
  std::vector<ValueId> all;
  for (const NextValue& s : made.states) all.push_back(s.next ? s.next : s.target);
  return all;
}

void keep(TensorUpdate& made, const std::vector<ValueId>& next) {
  for (size_t i = 0; i < next.size(); ++i)
    if (next[i]) made.states[i].next = next[i];
}

}  // namespace

void MethodUpdates::add(const Parameter& p, const TensorUpdateInputs& in, TensorUpdate made) {
  TensorRule rule = MethodRules(plan_, p, targets_.at(of_method(plan_, p).entry).size()).score();
  rule.shard(plan_);
  std::vector<ValueId> next;
  const ValueId scores =
      rule.write(g_, inputs_of(g_, plan_, in, made.parameter), states_of(made), next)[0];
  keep(made, next);
  pending_.push_back({&p, in, in.split ? *in.split : SplitValue{}, std::move(made), scores});
}

// (T,n). A parameter of several stages is counted by the first of them.
ValueId MethodUpdates::gather_scores(const std::string& entry,
                                     const std::vector<std::string>& targets) {
  const auto first = std::find_if(
      plan_.of_methods.begin(), plan_.of_methods.end(),
      [&](const auto& one) { return one.second.entry == entry && one.second.n_scores > 0; });
  if (first == plan_.of_methods.end()) return 0;
  const plait_shape row = make_shape(plan_.precision.parameter, {1, first->second.n_scores});
  std::vector<ValueId> rows;
  for (const std::string& target : targets) {
    ValueId sum = program::filled(g_, row, 0);
    for (const Pending& one : pending_) {
      const MethodParameter& its = of_method(plan_, *one.parameter);
      if (its.entry != entry || its.target != target || !one.scores ||
          one.parameter->holders[0] != plan_.at.pipeline)
        continue;
      sum =
          program::binary(g_, "add", sum, program::reshaped(g_, one.scores, program::dims_of(row)));
    }
    rows.push_back(sum);
  }
  // With a row of zeros in front, it is a value of its own, which ranks sum in place.
  rows.insert(rows.begin(), program::filled(g_, row, 0));
  const std::string name = "scores of " + entry;
  // In memory of the plan: a rank that reads none of them takes part all the same.
  FlatBuffer place = plan_.storage.add_flat(name, Category::kResults, row.dtype);
  plan_.storage.append(place, static_cast<int64_t>(rows.size()) * row.dims[1]);
  ValueId all = g_.bind(g_.apply1("concat", rows, {attr("axis", int64_t{0})}), place.at(0));
  if (plan_.zero > 0) all = sum_over(g_, plan_, topology::Axis::kData, name, all);
  all = sum_over(g_, plan_, topology::Axis::kPipeline, name + ", by stage", all);
  return g_.apply1("slice", {all},
                   {attr("axis", int64_t{0}), attr("start", int64_t{1}),
                    attr("stop", static_cast<int64_t>(rows.size()))});
}

void MethodUpdates::gather() {
  g_.scope = model_ + ".optimizer";
  for (const auto& [entry, targets] : targets_) all_scores_[entry] = gather_scores(entry, targets);
}

MethodUpdates::Written MethodUpdates::write(const Parameter& p) {
  Pending& one = *std::find_if(pending_.begin(), pending_.end(),
                               [&](const Pending& other) { return other.parameter == &p; });
  const MethodParameter& its = of_method(plan_, p);
  const std::vector<std::string>& targets = targets_.at(its.entry);
  g_.scope = p.name;
  std::vector<ValueId> inputs = inputs_of(g_, plan_, one.in, one.made.parameter), next;
  if (const ValueId all_scores = all_scores_.at(its.entry)) {
    const auto row = std::find(targets.begin(), targets.end(), its.target) - targets.begin();
    const ValueId own = g_.apply1(
        "slice", {all_scores},
        {attr("axis", int64_t{0}), attr("start", int64_t{row}), attr("stop", int64_t{row + 1})});
    inputs.push_back(program::reshaped(g_, own, {its.n_scores}));
    inputs.push_back(all_scores);
  }
  TensorRule rule = MethodRules(plan_, p, targets.size()).update();
  rule.shard(plan_);
  one.made.parameter = rule.write(g_, inputs, states_of(one.made), next)[0];
  keep(one.made, next);
  if (one.in.split) one.in.split = &one.halves;
  const ValueId value = finish_tensor_update(g_, plan_, p, one.in, one.made);
  return {value, one.in.split ? one.halves.rest : 0};
}

}  // namespace plait::plan
