// PEFT methods: what they write behind products, look-ups and layers.
#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/trace.hpp"
#include "engine/program/op_def.hpp"

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
  const auto own = used_.find(op.in[use->weight]);
  if (own == used_.end()) return result;
  const std::string name = graph_->scope + "." + own->second;
  const Parameter* parameter = find_registered(name);
  for (const config::TieConfig& tie : layer.tie)
    if (tie.own == own->second) parameter = find_registered(tie.full);
  plait_peft_target target{};
  target.what = use->is_table ? PLAIT_PEFT_LOOKUP : PLAIT_PEFT_PRODUCT;
  target.out_in = use->out_in;
  target.input = op.in[use->input];
  target.output = result;
  target.weight = op.in[use->weight];
  target.bias = use->bias ? op.in[use->bias] : 0;
  target.shard_unit = parameter->shard_unit;
  target.shard_dim = parameter->shard_dim;
  return adapt(model, name, target);
}

// The first output of the layer being traced.
ValueId Tracer::adapt_layer(const config::ModelConfig& model, ValueId input, ValueId output) {
  plait_peft_target target{};
  target.what = PLAIT_PEFT_LAYER;
  target.input = input;
  target.output = output;
  target.shard_dim = -1;
  return adapt(model, graph_->scope, target);
}

// Every adapter of the model that holds the target, in their order.
ValueId Tracer::adapt(const config::ModelConfig& model, const std::string& name,
                      plait_peft_target target) {
  target.struct_size = sizeof target;
  target.name = name.c_str();
  adapter_targets_.push_back({model.name, name, target.what});
  for (const config::AdapterConfig& adapter : model.adapters) {
    if (problems_ && problems_->touch(adapter.path)) continue;
    const plait_peft_item& item = plan_.registry->peft(adapter.type);
    if (!(item.targets & target.what) || !adapter.holds(name)) continue;
    target.output = wrap(model, adapter, target);
  }
  return target.output;
}

ValueId Tracer::wrap(const config::ModelConfig& model, const config::AdapterConfig& adapter,
                     const plait_peft_target& target) {
  static const config::LayerConfig no_ties;
  const plait_peft_item& item = plan_.registry->peft(adapter.type);
  const PluginCall at{plan_.registry->plugin_of(&item), "wrap", "PEFT method", item.name};
  program::BuildHooks hooks = hooks_;
  hooks.parameter = [&](const plait_parameter& p) { return parameter(p, model, no_ties); };
  // Its ops are the layer's; its parameters and random numbers have names of their own.
  adapter_ = &adapter;
  owner_ = std::string(target.name) + "." + adapter.name;
  ValueId output = 0;
  try {
    program::CBuilder builder(*graph_, hooks);
    if (plait_error* e = try_plugin(
            at, [&] { return item.wrap(builder.get(), &adapter.options, &target, &output); }))
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
