#include "engine/plan/trace.hpp"

#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/hash.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/program/rule.hpp"

namespace plait::plan {

using program::attr;
using program::make_shape;

Tracer::Tracer(Plan& plan, Feed& feed, const Dataset& dataset,
               const config::DatasetConfig& data_config, bool training, StageOf stage_of)
    : plan_(plan),
      feed_(feed),
      dataset_(dataset),
      data_config_(data_config),
      training_(training),
      stage_of_(std::move(stage_of)),
      graph_(std::make_unique<Graph>(plan.rules.get())),
      results_(plan.experiment.models.size()) {
  counter_ = graph_->persistent("counter", make_shape(PLAIT_I64, {2}), feed.counter);
  weight_ = graph_->persistent("weight", make_shape(PLAIT_F32, {feed.batch}), feed.weight);
  values_["weight"] = weight_;
}

void Tracer::run() {
  // Frozen models first: the others may read what they make (a teacher beside a student).
  for (const bool frozen : {true, false})
    for (size_t m = 0; m < plan_.experiment.models.size(); ++m)
      if (plan_.experiment.models[m].frozen == frozen) trace_model(m);
  note_bounds();
}

void Tracer::trace_model(size_t m) {
  const config::ModelConfig& model = plan_.experiment.models[m];
  model_ = model.name;
  last_.clear();
  hooks_ = {};
  // A frozen model only ever evaluates: no dropout in a teacher.
  hooks_.training = training_ && !model.frozen;
  hooks_.named = [this](const std::string& name) { return named(name); };
  hooks_.random_uniform = [this](ValueId like) { return random_uniform(like); };
  for (size_t l = 0; l < model.layers.size(); ++l) {
    graph_->stage = stage_of_(m, l);
    trace_layer(model, model.layers[l]);
  }
  graph_->stage = stage_of_(m, model.layers.size());
  if (!last_.empty()) {
    results_[m].output = last_[0];
    values_[model.name + ".output"] = last_[0];
    outputs_.emplace_back(plan_.experiment.models.size() == 1 ? "output" : model.name + ".output",
                          last_[0]);
  }
  hooks_.parameter = nullptr;
  trace_losses(m);
  if (!training_) trace_metrics(m);
}

namespace {

// Runs one plugin call; its error gets the entry's name and place in front.
template <class F>
void at_entry(const config::ItemConfig& entry, const std::string& scope, F&& call) {
  try {
    call();
  } catch (const Error& e) {
    throw Error(e.code() == PLAIT_ERR_INVALID ? static_cast<uint32_t>(PLAIT_ERR_CONFIG) : e.code(),
                entry.origin.text() + ": " + entry.path + ": " + entry.type + " '" + scope +
                    "' cannot be built",
                std::make_shared<const Error>(e));
  }
}

template <class Item, class F>
void build(const Plan& plan, const Item& item, const char* kind, F&& call) {
  const PluginCall at{plan.registry->plugin_of(&item), "build", kind, item.name};
  if (plait_error* e = try_plugin(at, call)) throw from_c(e);
}

}  // namespace

void Tracer::trace_layer(const config::ModelConfig& model, const config::LayerConfig& layer) {
  const plait_layer_item& item = plan_.registry->layer(layer.type);
  graph_->scope = model.name + "." + layer.name;
  hooks_.parameter = [&](const plait_parameter& p) { return parameter(p, model, layer); };
  at_entry(layer, graph_->scope, [&] {
    std::vector<ValueId> first;
    if (last_.empty()) {
      for (const auto& f : dataset_.fields())
        if (f.role == PLAIT_FIELD_INPUT && first.empty()) first.push_back(field_value(f.name));
      if (first.empty() && layer.from.empty())
        fail_config("[data." + dataset_.name() +
                    "] has no input field for the first layer; name one with `from`");
    }
    const std::vector<ValueId> in = inputs(layer.from, last_.empty() ? first : last_);
    if (in.size() < item.min_inputs || in.size() > item.max_inputs)
      fail_config(strf("[%s] takes %u%s inputs, found %zu; name them with from = [...]",
                       layer.type.c_str(), item.min_inputs,
                       item.max_inputs == item.min_inputs ? "" : " or more", in.size()));
    std::vector<ValueId> out(item.n_outputs, 0);
    program::CBuilder builder(*graph_, hooks_);
    build(plan_, item, "layer", [&] {
      return item.build(builder.get(), &layer.options, in.data(), static_cast<uint32_t>(in.size()),
                        out.data());
    });
    if (std::find(out.begin(), out.end(), 0u) != out.end())
      fail(PLAIT_ERR_PLUGIN, "[plugin " + plan_.registry->plugin_of(&item) + "] layer '" +
                                 layer.type + "' left an output unset");
    if (layer.as.size() > out.size())
      fail_config(
          strf("`as` names %zu values, the layer has %zu outputs", layer.as.size(), out.size()));
    for (size_t i = 0; i < layer.as.size(); ++i) {
      values_[model.name + "." + layer.as[i]] = out[i];
      outputs_.emplace_back(
          plan_.experiment.models.size() == 1 ? layer.as[i] : model.name + "." + layer.as[i],
          out[i]);
    }
    last_ = out;
  });
}

std::vector<ValueId> Tracer::inputs(const std::vector<std::string>& from,
                                    const std::vector<ValueId>& fallback) {
  if (from.empty()) return fallback;
  std::vector<ValueId> values;
  for (const std::string& name : from) values.push_back(named(name));
  return values;
}

ValueId Tracer::default_target() {
  for (const auto& f : dataset_.fields())
    if (f.role == PLAIT_FIELD_TARGET) return field_value(f.name);
  fail_config("[data." + dataset_.name() +
              "] has no target field to compare with; name one with from = [...]");
}

void Tracer::trace_losses(size_t m) {
  const config::ModelConfig& model = plan_.experiment.models[m];
  for (const auto& loss : model.losses) {
    const plait_loss_item& item = plan_.registry->loss(loss.type);
    graph_->scope = model.name + "." + loss.name;
    at_entry(loss, graph_->scope, [&] {
      std::vector<ValueId> in;
      if (loss.from.empty()) {
        if (last_.empty())
          fail_config("the model has no layers, so there is no output to judge; use from = [...]");
        in = {last_[0], default_target()};
      } else {
        in = inputs(loss.from, {});
      }
      ValueId out[2] = {0, 0};
      program::CBuilder builder(*graph_, hooks_);
      build(plan_, item, "loss", [&] {
        return item.build(builder.get(), &loss.options, in.data(), static_cast<uint32_t>(in.size()),
                          out);
      });
      for (ValueId v : out)
        if (v == 0 || program::elements(graph_->shape(v)) != 1)
          fail(PLAIT_ERR_PLUGIN,
               "[plugin " + plan_.registry->plugin_of(&item) + "] loss '" + loss.type +
                   "' must set two scalars: the sum of weighted losses and the sum of weights");
      Result& r = results_[m];
      const ValueId sum = loss.weight == 1 ? out[0] : program::scaled(*graph_, out[0], loss.weight);
      r.loss_sum = r.loss_sum ? program::operator_(*graph_, "add", r.loss_sum, sum) : sum;
      // One normaliser per model: the step divides by the weights of the whole global batch, which must mean one thing.
      if (r.weight_sum && r.weight_sum != out[1])
        fail_config("losses of one model must count the same weights; '" + loss.name +
                    "' counts others than the first");
      r.weight_sum = out[1];
    });
  }
}

void Tracer::trace_metrics(size_t m) {
  const config::ModelConfig& model = plan_.experiment.models[m];
  for (const auto& metric : model.metrics) {
    const plait_metric_item& item = plan_.registry->metric(metric.type);
    graph_->scope = model.name + "." + metric.name;
    at_entry(metric, graph_->scope, [&] {
      std::vector<ValueId> in = metric.from.empty()
                                    ? std::vector<ValueId>{last_.at(0), default_target()}
                                    : inputs(metric.from, {});
      ValueId state = 0;
      program::CBuilder builder(*graph_, hooks_);
      build(plan_, item, "metric", [&] {
        return item.build(builder.get(), &metric.options, in.data(),
                          static_cast<uint32_t>(in.size()), &state);
      });
      if (state == 0 || program::elements(graph_->shape(state)) != item.n_state ||
          graph_->shape(state).dtype != PLAIT_F32)
        fail(PLAIT_ERR_PLUGIN,
             strf("[plugin %s] metric '%s' must set a state of %u f32",
                  plan_.registry->plugin_of(&item).c_str(), metric.type.c_str(), item.n_state));
      const bool alone = plan_.experiment.models.size() == 1;
      metric_states_.push_back(
          {alone ? metric.name : model.name + "." + metric.name, &item, state});
    });
  }
}

ValueId Tracer::parameter_value(const std::string& name) const {
  const auto it = parameters_.find(name);
  return it == parameters_.end() ? 0 : it->second;
}

}  // namespace plait::plan
