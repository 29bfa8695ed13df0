// PEFT methods: what they write behind products, look-ups and layers.
#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/precision.hpp"

namespace plait::plan {

// What the layer reads in place of an op's result: that of the adapters of the weight which the op
// applies, if it does. A parameter has the name that this layer has for it, also where it is tied.
ValueId Tracer::adapt_result(const config::ModelConfig& model, const config::LayerConfig& layer,
                             ValueId result) {
  const int32_t producer = graph_->value(result).producer;
  if (producer < 0) return result;
  const program::Op op = graph_->ops()[static_cast<size_t>(producer)];  // ops are added below
  const auto use = op.def->weight_use ? op.def->weight_use(*graph_, op) : std::nullopt;
  if (!use) return result;
  const Parameter* weight = parameter_behind(layer, op.in[use->weight]);
  if (!weight) return result;
  plait_peft_target target{};
  target.what = use->is_table ? PLAIT_PEFT_LOOKUP
                : use->groups ? PLAIT_PEFT_GROUPED
                              : PLAIT_PEFT_PRODUCT;
  target.out_in = use->out_in;
  target.input = op.in[use->input];
  target.output = result;
  target.weight = op.in[use->weight];
  target.bias = use->bias ? op.in[use->bias] : 0;
  target.groups = use->groups ? op.in[use->groups] : 0;
  target.shard_unit = weight->shard_unit;
  target.shard_dim = weight->shard_dim;
  const Parameter* bias = target.bias ? parameter_behind(layer, target.bias) : nullptr;
  AdaptedTarget known;
  known.name = graph_->scope + "." + used_.at(target.weight);
  known.weight = weight->name;
  if (bias) known.bias = bias->name;
  adapted_ = weight->name;
  return adapt(model, std::move(known), target, producer);
}

// The parameter that the layer has requested as this value; nullptr: none.
const Parameter* Tracer::parameter_behind(const config::LayerConfig& layer, ValueId v) const {
  const auto own = used_.find(v);
  if (own == used_.end()) return nullptr;
  for (const config::TieConfig& tie : layer.tie)
    if (tie.own == own->second) return find_registered(tie.full);
  return find_registered(graph_->scope + "." + own->second);
}

// The first output of the layer being traced.
ValueId Tracer::adapt_layer(const config::ModelConfig& model, ValueId input, ValueId output) {
  plait_peft_target target{};
  target.what = PLAIT_PEFT_LAYER;
  target.input = input;
  target.output = output;
  target.shard_dim = -1;
  AdaptedTarget known;
  known.name = graph_->scope;
  adapted_ = graph_->scope;
  return adapt(model, std::move(known), target, -1);
}

namespace {

// An adapter changes a target by one entry.
const config::AdapterConfig* second_entry(const std::vector<const config::AdapterConfig*>& all,
                                          const config::AdapterConfig& adapter) {
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const auto* other) { return other->name == adapter.name; });
  return at != all.end() ? *at : nullptr;
}

}  // namespace

// Every adapter of the model that holds the target, in their order. op: what makes the target.
ValueId Tracer::adapt(const config::ModelConfig& model, AdaptedTarget known,
                      plait_peft_target target, int32_t op) {
  const std::string name = known.name;
  target.struct_size = sizeof target;
  target.name = name.c_str();
  adapter_targets_.push_back({model.name, name, target.what});
  const auto first_op = static_cast<int32_t>(graph_->ops().size());
  // An adapter that fails is reported, and the layer is traced without it: its output has the same
  // shape, so that nothing else seems to be wrong.
  const auto change = [&](auto&& changed) {
    try {
      target.output = changed();
    } catch (const Error& e) {
      if (!problems_ || !error_site_ || e.code() == PLAIT_ERR_MEMORY) throw;
      if (!poisoned_) problems_->add(error_site_->origin, error_site_->path, e.full_text());
      error_site_.reset();
      failed_models_.insert(model.name);
    }
  };
  for (const config::AdapterConfig& adapter : model.adapters) {
    if (problems_ && problems_->touch(adapter.path)) continue;
    const plait_peft_item& item = plan_.registry->peft(adapter.type);
    if (!(item.targets & target.what) || !adapter.holds(name)) continue;
    if (const config::AdapterConfig* other = second_entry(known.adapters, adapter)) {
      change([&]() -> ValueId {
        error_site_ = {adapter.origin, adapter.path};
        fail_config("[plan] adapter '" + adapter.name + "' has two entries that change '" + name +
                    "', " + other->path + " (" + other->origin.text() + ") and " + adapter.path +
                    " (" + adapter.origin.text() +
                    "); narrow `match` of one, or give it another name");
      });
      continue;
    }
    if (all_take(model, adapter.name)) change([&] { return wrap(model, adapter, target); });
    known.adapters.push_back(&adapter);
  }
  if (known.adapters.empty()) return target.output;
  if (samples_choose(model)) change([&] { return adapt_by_sample(model, known.adapters, target); });
  if (op >= 0) adapted_ops_[op] = name;
  for (auto i = first_op; i < static_cast<int32_t>(graph_->ops().size()); ++i)
    adapted_ops_[i] = name;
  known.model = model.name;
  known.what = target.what;
  known.out_in = target.out_in != 0;
  known.shard_unit = target.shard_unit;
  known.shard_dim = target.shard_dim;
  // A layer may apply one weight several times.
  const bool met =
      std::any_of(adapted_targets_.begin(), adapted_targets_.end(),
                  [&](const AdaptedTarget& t) { return t.name == name && t.what == known.what; });
  if (met) return target.output;
  for (const config::AdapterConfig* adapter : known.adapters) ++n_targets_[key_of(*adapter)];
  adapted_targets_.push_back(std::move(known));
  return target.output;
}

std::string Tracer::other_reader(const AdaptedTarget& target, const std::string& parameter) const {
  if (parameter.empty()) return {};
  std::vector<ValueId> values{parameter_value(parameter)};
  for (size_t i = 0; i < values.size(); ++i)
    for (const int32_t r : graph_->readers(values[i])) {
      const program::Op& op = graph_->ops()[static_cast<size_t>(r)];
      const auto known = adapted_ops_.find(r);
      if (known == adapted_ops_.end() && program::is_float_cast(*graph_, op))
        values.push_back(op.out[0]);
      else if (known == adapted_ops_.end() || known->second != target.name)
        return op.scope;
    }
  return {};
}

void Tracer::note_other_readers() {
  for (AdaptedTarget& t : adapted_targets_) {
    t.weight_reader = other_reader(t, t.weight);
    t.bias_reader = other_reader(t, t.bias);
  }
}

// Parameters requested and random numbers drawn now are the adapter's, at this target.
void Tracer::write_for(const config::AdapterConfig& adapter, const plait_peft_target& target) {
  adapter_ = &adapter;
  target_name_ = target.name;
  owner_ = target_name_ + "." + adapter.name;
  weight_owner_ = adapted_ + "." + adapter.name;
  random_owner_ = random_owner(adapter, target);
}

std::string Tracer::random_owner(const config::AdapterConfig& adapter,
                                 const plait_peft_target& target) {
  return std::string(target.name) + "." + adapter.type;
}

ValueId Tracer::wrap(const config::ModelConfig& model, const config::AdapterConfig& adapter,
                     const plait_peft_target& target) {
  static const config::LayerConfig no_ties;
  program::BuildHooks hooks = hooks_;
  hooks.parameter = [&](const plait_parameter& p) { return parameter(p, model, no_ties); };
  if (hooks_.add_loss)
    hooks.add_loss = [&](const std::string& name, double factor, ValueId sum, ValueId weights) {
      note_term({&adapter, "", name, factor, sum, weights});
    };
  return call_wrap(adapter, target, hooks);
}

// Its ops are the layer's; its parameters and random numbers have names of their own.
ValueId Tracer::call_wrap(const config::AdapterConfig& adapter, const plait_peft_target& target,
                          const program::BuildHooks& hooks) {
  const plait_peft_item& item = plan_.registry->peft(adapter.type);
  const PluginCall at{plan_.registry->plugin_of(&item), "wrap", "PEFT method", item.name};
  write_for(adapter, target);
  plait_peft_target own = target;
  if (const auto known = plan_.targets_of_adapter.find(key_of(adapter));
      known != plan_.targets_of_adapter.end())
    own.n_targets = known->second;
  ValueId output = 0;
  try {
    program::CBuilder builder(*graph_, hooks);
    if (plait_error* e = try_plugin(
            at, [&] { return item.wrap(builder.get(), &adapter.options, &own, &output); }))
      throw from_c(e);
    program::check_outputs(*graph_, at, {output});
    if (!program::same(graph_->shape(output), graph_->shape(target.output)))
      fail(PLAIT_ERR_PLUGIN, "[plugin " + std::string(at.plugin) + "] wrap() of PEFT method '" +
                                 item.name + "' made " + program::text(graph_->shape(output)) +
                                 " of " + program::text(graph_->shape(target.output)) +
                                 ", expected the same shape; tell its author");
  } catch (...) {
    error_site_ = {adapter.origin, adapter.path};
    adapter_ = nullptr;
    throw;
  }
  adapter_ = nullptr;
  return output;
}

}  // namespace plait::plan
