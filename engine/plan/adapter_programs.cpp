#include "engine/plan/adapter_programs.hpp"

#include <plait/peft.h>

#include <algorithm>
#include <utility>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/parameter_rule.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/c_builder.hpp"
#include "engine/program/op_def.hpp"

namespace plait::plan {
namespace {

const std::vector<AdaptedTarget>& targets_of(const EntryPointSource& from) {
  return from.traced.train->adapted_targets();
}

// One method's functions on one target, written into a rule.
class AdapterRule {
 public:
  AdapterRule(const Plan& plan, ParameterRule& rule, const AdaptedTarget& target,
              const config::AdapterConfig& adapter)
      : plan_(plan),
        rule_(rule),
        known_(target),
        adapter_(adapter),
        item_(plan.registry->peft(adapter.type)) {
    target_.struct_size = sizeof target_;
    target_.name = target.name.c_str();
    target_.what = target.what;
    target_.out_in = target.out_in;
    target_.weight = value_of(target.weight);
    target_.bias = value_of(target.bias);
    target_.shard_unit = target.shard_unit;
    target_.shard_dim = target.shard_dim;
    hooks_.parameter = [this](const plait_parameter& p) { return parameter(p); };
  }

  // Returns why it cannot be merged, or "". weight and bias become what they are to be.
  std::string merge(ValueId& weight, ValueId& bias) {
    const std::string what = "adapter '" + adapter_.name + "' (" + adapter_.path + ")";
    if (!item_.merge)
      return what + ": method '" + item_.name +
             "' cannot be merged: it has no rule that writes what it learned into weights and "
             "biases; keep it as an adapter";
    if (!target_.weight)
      return what + " changes what layer '" + known_.name + "' makes, not a weight";
    const plait_shape of_weight = shape(weight), of_bias = shape(bias);
    program::CBuilder builder(rule_.graph(), hooks_);
    const PluginCall at = call("merge");
    if (plait_error* e = try_plugin(at, [&] {
          return item_.merge(builder.get(), &adapter_.options, &target_, &weight, &bias);
        })) {
      const Error error = from_c(e);
      if (error.code() == PLAIT_ERR_PLUGIN || error.code() == PLAIT_ERR_MEMORY) throw error;
      return what + " of '" + known_.name + "': " + error.full_text();
    }
    check(at, "the weight", weight, of_weight);
    if (bias || target_.bias) check(at, "the bias", bias, of_bias);
    return {};
  }

  void start() {
    plait_peft_start starts[PLAIT_PEFT_MAX_STARTS] = {};
    uint32_t n = 0;
    program::CBuilder builder(rule_.graph(), hooks_);
    const PluginCall at = call("start");
    if (plait_error* e = try_plugin(at, [&] {
          return item_.start(builder.get(), &adapter_.options, &target_, starts, &n);
        }))
      throw from_c(e);
    if (n > PLAIT_PEFT_MAX_STARTS)
      malformed(at, strf("sets %u initial values, expected at most %u", n, PLAIT_PEFT_MAX_STARTS));
    for (uint32_t i = 0; i < n; ++i) {
      const Parameter* p = rule_.parameter_of(starts[i].parameter);
      if (!p || p->adapter != adapter_.name)
        malformed(at, strf("sets an initial value of %u, which is no parameter of the adapter",
                           starts[i].parameter));
      check(at, "the initial value of '" + p->name + "'", starts[i].value, p->shape);
      rule_.write(*p, starts[i].value);
    }
  }

 private:
  PluginCall call(const char* function) const {
    return {plan_.registry->plugin_of(&item_), function, "PEFT method", item_.name};
  }
  [[noreturn]] void malformed(const PluginCall& at, const std::string& what) const {
    fail(PLAIT_ERR_PLUGIN, "[plugin " + std::string(at.plugin) + "] " + text_of(at) + " " + what +
                               ", for '" + known_.name + "'; tell its author");
  }
  void check(const PluginCall& at, const std::string& what, ValueId v,
             const plait_shape& expected) const {
    program::check_outputs(rule_.graph(), at, {v});
    const plait_shape& found = shape(v);
    if (!program::same_dims(found, expected) || !program::is_float(found.dtype))
      malformed(at, "sets " + what + " to " + program::text(found) + ", expected " +
                        program::text(expected));
  }
  plait_shape shape(ValueId v) const { return v ? rule_.graph().shape(v) : plait_shape{}; }
  ValueId value_of(const std::string& name) {
    return name.empty() ? 0 : rule_.read(*plan_.parameter(name));
  }
  // Those that wrap() has requested, and no others.
  ValueId parameter(const plait_parameter& p) {
    const bool of_weight = (p.flags & PLAIT_REQUEST_OF_WEIGHT) != 0 && !known_.weight.empty();
    const std::string name =
        (of_weight ? known_.weight : known_.name) + "." + adapter_.name + "." + p.name;
    const Parameter* known = plan_.parameter(name);
    if (!known || !program::same_dims(known->shape, p.shape))
      fail(PLAIT_ERR_PLUGIN, "[" + rule_.graph().scope + "] parameter '" + name + "' " +
                                 program::text(p.shape) +
                                 (known ? " is " + program::text(known->shape) + " in wrap()"
                                        : " is none that wrap() requests"));
    return rule_.read(*known);
  }

  const Plan& plan_;
  ParameterRule& rule_;
  const AdaptedTarget& known_;
  const config::AdapterConfig& adapter_;
  const plait_peft_item& item_;
  plait_peft_target target_{};
  program::BuildHooks hooks_;
};

std::string shared(const AdaptedTarget& t, const std::string& parameter,
                   const std::string& reader) {
  return "'" + t.name + "' cannot be merged: '" + parameter + "' is read by '" + reader +
         "' as well, which would change with it";
}

using Merge = AdapterPrograms::Merge;

bool is_merged(const Merge& merge, const AdaptedTarget& t, const config::AdapterConfig& adapter) {
  return merge.adapter.empty() || (merge.model == t.model && merge.adapter == adapter.name);
}

// The changes of these adapters of a target. Returns why they cannot be merged, or "".
std::string merge_target(PlanDraft& plan, const AdaptedTarget& t, Merge& merge,
                         ParameterProgram& into) {
  if (std::none_of(t.adapters.begin(), t.adapters.end(),
                   [&](const auto* adapter) { return is_merged(merge, t, *adapter); }))
    return {};
  ParameterRule rule(plan, "merge " + t.name, ParameterRule::Work::kShared);
  const Parameter* weight = plan.parameter(t.weight);
  const Parameter* bias = plan.parameter(t.bias);
  const ValueId own_weight = weight ? rule.read(*weight) : 0;
  const ValueId own_bias = bias ? rule.read(*bias) : 0;
  ValueId new_weight = own_weight, new_bias = own_bias;
  for (const config::AdapterConfig* adapter : t.adapters) {
    if (!is_merged(merge, t, *adapter)) continue;
    if (std::string refused = AdapterRule(plan, rule, t, *adapter).merge(new_weight, new_bias);
        !refused.empty())
      return refused;
  }
  const auto write = [&](const Parameter* p, ValueId before, ValueId after) {
    if (after == before) return;
    rule.write(*p, after);
    merge.changed.push_back(static_cast<size_t>(p - plan.parameters.data()));
  };
  if (new_weight != own_weight && !t.weight_reader.empty())
    return shared(t, t.weight, t.weight_reader);
  if (new_bias != own_bias && !t.bias_reader.empty()) return shared(t, t.bias, t.bias_reader);
  write(weight, own_weight, new_weight);
  write(bias, own_bias, new_bias);
  if (!rule.is_together())
    return "'" + t.name + "' cannot be merged: its weight and its adapters lie in different stages";
  if (rule.is_held()) into.add(std::move(rule));
  return {};
}

// Why the adapters cannot be merged together, or "".
std::string one_by_one(const Plan& plan) {
  for (const config::ModelConfig& model : plan.experiment.models)
    if (!model.adapter_field.empty())
      return "each sample of '" + model.name + "' takes an adapter of its own (" + model.path +
             ".adapter_field), so that no weights compute what all of them do; merge one of them: "
             "plait merge --adapter NAME, or a host's merge of one adapter";
  return {};
}

EntryPoint write_merge(const EntryPointSource& from, Merge merge) {
  PlanDraft& plan = from.plan;
  EntryPoint entry{
      merge.entry_point,
      merge.adapter.empty() ? "merging adapters" : "merging adapter '" + merge.adapter + "'",
      {}};
  const size_t collectives = plan.collectives.size();
  ParameterProgram program(plan, entry.name);
  if (merge.adapter.empty()) merge.refused = one_by_one(plan);
  for (const AdaptedTarget& t : targets_of(from))
    if (merge.refused.empty()) merge.refused = merge_target(plan, t, merge, program);
  if (!merge.refused.empty()) {
    merge.changed.clear();
    plan.collectives.resize(collectives);
  } else if (!program.empty()) {
    entry.launches = {{program.finish(), 0, -1, -1}};
  }
  plan.adapters.merges.push_back(std::move(merge));
  return entry;
}

// adapter: its name; several entries may have it.
EntryPoint write_start(const EntryPointSource& from, const config::ModelConfig& model,
                       const std::string& adapter) {
  PlanDraft& plan = from.plan;
  EntryPoint entry{
      "start_" + model.name + "." + adapter, "initial values of adapter '" + adapter + "'", {}};
  plan.adapters.starts.push_back({model.name, adapter, entry.name});
  ParameterProgram program(plan, entry.name);
  for (const AdaptedTarget& t : targets_of(from)) {
    if (t.model != model.name) continue;
    for (const config::AdapterConfig* own : t.adapters) {
      if (own->name != adapter || !plan.registry->peft(own->type).start) continue;
      ParameterRule rule(plan, "start " + t.name, ParameterRule::Work::kRepeated);
      AdapterRule(plan, rule, t, *own).start();
      if (!rule.is_together())
        fail_config("[plan] adapter '" + adapter + "' (" + own->path + "): '" + t.name +
                    "' and the adapter lie in different stages, so that no rank can compute its "
                    "initial values; use topology.pipeline = 1");
      if (rule.is_held()) program.add(std::move(rule));
    }
  }
  if (!program.empty()) entry.launches = {{program.finish(), 0, -1, -1}};
  return entry;
}

bool has_start(const Plan& plan, const config::ModelConfig& model, const std::string& adapter) {
  return std::any_of(model.adapters.begin(), model.adapters.end(),
                     [&](const config::AdapterConfig& own) {
                       return own.name == adapter && plan.registry->peft(own.type).start;
                     });
}

}  // namespace

std::vector<WriteEntryPoint> adapter_entry_points(const Plan& plan) {
  std::vector<WriteEntryPoint> all;
  std::vector<Merge> merges;
  bool by_sample = false;
  for (size_t m = 0; m < plan.experiment.models.size(); ++m) {
    const config::ModelConfig& model = plan.experiment.models[m];
    by_sample = by_sample || !model.adapter_field.empty();
    for (const std::string& adapter : adapter_names(model)) {
      merges.push_back({model.name, adapter, "merge_" + model.name + "." + adapter, {}, {}});
      if (!has_start(plan, model, adapter)) continue;
      all.push_back([m, adapter](const EntryPointSource& from) {
        return write_start(from, from.plan.experiment.models[m], adapter);
      });
    }
  }
  if (merges.empty()) return all;
  if (merges.size() == 1 && !by_sample) merges.clear();  // the one is all
  merges.insert(merges.begin(), {"", "", kMergeAdapters, {}, {}});
  for (const Merge& merge : merges)
    all.push_back([merge](const EntryPointSource& from) { return write_merge(from, merge); });
  return all;
}

}  // namespace plait::plan
