#include "engine/plan/trace.hpp"

#include <algorithm>

#include "engine/base/c_error.hpp"
#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/plugin_outputs.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/precision.hpp"

namespace plait::plan {

using program::make_shape;

namespace {
// Of the ops behind `first`. Counted before precision is lowered, which adds ops between them.
ModelFlops products_from(const Graph& g, size_t first) {
  ModelFlops sum;
  for (size_t i = first; i < g.ops().size(); ++i) {
    const program::Op& op = g.ops()[i];
    if (!op.def->is_product) continue;
    sum.masked += program::flops_of(g, op);
    sum.full += program::unmasked_flops_of(g, op);
  }
  return sum;
}
}  // namespace

Tracer::Tracer(PlanDraft& plan, Feed& feed, TraceSource source, TraceMode mode, StageOf stage_of,
               config::Problems* problems)
    : plan_(plan),
      feed_(feed),
      source_(std::move(source)),
      mode_(mode),
      stage_of_(std::move(stage_of)),
      problems_(problems),
      is_first_(plan.layers.empty()),
      graph_(std::make_unique<Graph>(plan.ops.get(), plan.precision.scalar)),
      results_(plan.experiment.models.size()) {
  counter_ = graph_->persistent("counter", make_shape(PLAIT_I64, {2}), feed.counter);
  const ValueId weight =
      graph_->persistent("weight", make_shape(data::kWeightType, {feed.batch}), feed.weight);
  values_["weight"] = graph_->as_type(weight, plan.precision.scalar);
  for (size_t i = 0; i < plan.parameters.size(); ++i) registered_[plan.parameters[i].name] = i;
}

void Tracer::run() {
  // Frozen models first: the others may read what they make (a teacher beside a student).
  for (const bool frozen : {true, false})
    for (size_t m = 0; m < plan_.experiment.models.size(); ++m)
      if (plan_.experiment.models[m].frozen == frozen) trace_model(m);
  note_index_ranges();
  note_other_readers();
  note_target_counts();
  if (failed_models_.empty() && (!problems_ || problems_->empty())) lower_precision();
}

// FLOPs of products with a frozen weight: their backward pass multiplies once. Writes no op: a
// parameter that the last stage read would be held there.
double Tracer::frozen_products_from(size_t first_op) {
  std::set<ValueId> frozen;
  for (const auto& [name, v] : parameters_)
    if (find_registered(name)->frozen) frozen.insert(v);
  const auto is_frozen = [&](ValueId weight) {
    const int32_t producer = graph_->value(weight).producer;
    if (producer >= 0)
      if (const program::Op& op = graph_->ops()[static_cast<size_t>(producer)];
          program::is_float_cast(*graph_, op))
        weight = op.in[0];
    return frozen.contains(weight);
  };
  double sum = 0;
  for (size_t i = first_op; i < graph_->ops().size(); ++i) {
    const program::Op& op = graph_->ops()[i];
    const auto use = op.def->weight_use ? op.def->weight_use(*graph_, op) : std::nullopt;
    if (use && op.def->is_product && is_frozen(op.in[use->weight]))
      sum += program::flops_of(*graph_, op);
  }
  return sum;
}

void Tracer::trace_model(size_t m) {
  const config::ModelConfig& model = plan_.experiment.models[m];
  model_ = model.name;
  const size_t first_op = graph_->ops().size();
  block_.clear();
  last_.clear();
  terms_.clear();
  hooks_ = {};
  // A frozen model only ever evaluates: no dropout in a teacher.
  hooks_.training = training() && !model.frozen;
  hooks_.named = [this](const std::string& name) { return named(name); };
  hooks_.random_stream = [this] { return random_stream(); };
  hooks_.random_uniform = [this](ValueId like) { return random_uniform(like); };
  for (size_t l = 0; l < model.layers.size(); ++l) {
    graph_->stage = stage_of_(m, l);
    trace_layer(model, model.layers[l]);
  }
  block_.clear();
  graph_->stage = stage_of_(m, model.layers.size());
  if (last_.empty()) {  // no layers, which is a problem of the file
    failed_models_.insert(model.name);
    last_ = {poison(0)};
  }
  results_[m].output = last_[0];
  values_[model.name + ".output"] = last_[0];
  outputs_.emplace_back(plan_.experiment.models.size() == 1 ? "output" : model.name + ".output",
                        last_[0]);
  hooks_.parameter = nullptr;
  hooks_.add_loss = nullptr;
  if (mode_ == TraceMode::kGeneration) return;
  const size_t first = graph_->ops().size();
  trace_losses(m);
  if (mode_ != TraceMode::kObserved) trace_metrics(m);
  results_[m].forward = products_from(*graph_, first_op);
  results_[m].frozen = frozen_products_from(first_op);
  wide_ops_.emplace_back(first, graph_->ops().size());
}

bool Tracer::trace_entry(const config::ItemConfig& entry, const std::function<void()>& call) {
  poisoned_ = false;
  error_site_.reset();
  plugin_.clear();
  requested_.clear();
  used_.clear();
  if (problems_ && problems_->touch(entry.path)) return false;
  try {
    call();
    return true;
  } catch (const Error& e) {
    if (!problems_ || e.code() == PLAIT_ERR_MEMORY) throw;
    if (!poisoned_) report(entry, e);
    return false;
  }
}

void Tracer::report(const config::ItemConfig& entry, const Error& error) {
  if (error_site_) return problems_->add(error_site_->origin, error_site_->path, error.full_text());
  // Who changes a key of an entry and is told that it fails wants to read of the change.
  config::Origin origin = entry.origin;
  for (const config::OptionSet* set : {&entry.keys, &entry.options})
    if (const config::Origin* changed = set->overridden()) origin = *changed;
  problems_->add(origin, entry.path,
                 entry.type + " '" + graph_->scope + "'" +
                     (plugin_.empty() ? "" : " of plugin " + plugin_) + " cannot be built\n" +
                     error.full_text());
}

// A value in place of one that could not be made. `like` (0: none) is the best guess of its shape.
ValueId Tracer::poison(ValueId like) {
  const plait_shape shape =
      like ? graph_->shape(like) : make_shape(plan_.precision.compute, {feed_.batch, 1});
  const ValueId v = graph_->persistent("unknown", shape, BufferRef{});
  poison_values_.insert(v);
  return v;
}

// Every value that an entry gets passes through here.
ValueId Tracer::note_poison(ValueId v) {
  poisoned_ |= poison_values_.contains(v);
  return v;
}

namespace {

// What a build() sets, n values. Throws its error.
template <class Item, class F>
std::vector<ValueId> build(const Plan& plan, const Graph& g, const Item& item, const char* kind,
                           size_t n, F&& call) {
  const PluginCall at{plan.registry->plugin_of(&item), "build", kind, item.name};
  PluginOutputs<ValueId> room(n, 0);
  if (plait_error* e = try_plugin(at, [&] { return call(room.data()); })) throw from_c(e);
  std::vector<ValueId> out = room.take(at, "outputs, expected");
  if (n > 1 && out.back() == 0 && out.front() != 0) {
    const auto set =
        static_cast<size_t>(std::find(out.begin(), out.end(), ValueId{0}) - out.begin());
    fail(PLAIT_ERR_PLUGIN,
         "[plugin " + std::string(at.plugin) + "] " + text_of(at) +
             strf(" set only %zu outputs, expected %zu; tell its author", set, n));
  }
  program::check_outputs(g, at, out);
  return out;
}

// A value of another shape than the contract says.
template <class Item>
[[noreturn]] void refuse_output(const Plan& plan, const Graph& g, const Item& item,
                                const char* kind, size_t i, ValueId v,
                                const std::string& expected) {
  fail(PLAIT_ERR_PLUGIN, "[plugin " + plan.registry->plugin_of(&item) + "] build() of " + kind +
                             " '" + item.name + "' set output " + std::to_string(i) + " to " +
                             program::text(g.shape(v)) + ", expected " + expected +
                             "; tell its author");
}

}  // namespace

void Tracer::trace_layer(const config::ModelConfig& model, const config::LayerConfig& layer) {
  graph_->scope = model.name + "." + layer.name;
  const size_t first_op = graph_->ops().size();
  enter_blocks(model, layer.name);
  hooks_.parameter = [&](const plait_parameter& p) { return parameter(p, model, layer); };
  if (hooks_.training)
    hooks_.add_loss = [&](const std::string& name, double factor, ValueId sum, ValueId weights) {
      note_term({&layer, "", name, factor, sum, weights});
    };
  std::vector<ValueId> out;
  if (trace_entry(layer, [&] { out = build_layer(model, layer); })) {
    if (poisoned_) poison_values_.insert(out.begin(), out.end());
    check_ties(layer);
  } else {
    failed_models_.insert(model.name);
    failed_scopes_.insert(graph_->scope);
    const ValueId like = last_.empty() ? 0 : last_[0];
    out.clear();
    for (size_t i = 0; i < std::max<size_t>(1, layer.as.size()); ++i) out.push_back(poison(like));
  }
  name_outputs(model, layer, out);
  note_layer(layer, out[0], first_op);
  last_ = out;
}

std::vector<ValueId> Tracer::build_layer(const config::ModelConfig& model,
                                         const config::LayerConfig& layer) {
  const plait_layer_item& item = plan_.registry->layer(layer.type);
  plugin_ = plan_.registry->plugin_of(&item);
  std::vector<ValueId> in = last_;
  if (!layer.from.empty())
    in = named_inputs(layer, layer.from);
  else if (last_.empty())
    in = {first_input()};
  check_inputs(layer, layer.from, in, item.min_inputs, item.max_inputs);
  program::BuildHooks hooks = hooks_;
  if (!model.adapters.empty())
    hooks.wrote = [&](ValueId result) { return adapt_result(model, layer, result); };
  program::CBuilder builder(*graph_, hooks);
  std::vector<ValueId> out =
      build(plan_, *graph_, item, "layer", item.n_outputs, [&](ValueId* outputs) {
        return item.build(builder.get(), &layer.options, in.data(),
                          static_cast<uint32_t>(in.size()), outputs);
      });
  if (layer.as.size() > out.size()) {
    poisoned_ = false;
    error_site_ = {layer.keys.origin("as"), layer.path + ".as"};
    fail_config(strf("names %zu values, the layer has %zu outputs", layer.as.size(), out.size()));
  }
  if (!model.adapters.empty() && !in.empty()) out[0] = adapt_layer(model, in[0], out[0]);
  return out;
}

// As the first of the traces has it, which is that of training where there is one.
void Tracer::note_layer(const config::LayerConfig& layer, ValueId output, size_t first_op) {
  if (!is_first_) return;
  plan_.layers.push_back(
      {graph_->scope, layer.type, graph_->shape(output), products_from(*graph_, first_op).masked});
}

// A layer named "p3.norm" is in block p3, where `input` is what the block's first layer would read
// by itself.
void Tracer::enter_blocks(const config::ModelConfig& model, const std::string& layer) {
  const size_t dot = layer.rfind('.');
  const std::string block = dot == std::string::npos ? "" : layer.substr(0, dot + 1);
  for (size_t at = block.find('.'); at != std::string::npos; at = block.find('.', at + 1)) {
    const std::string outer = block.substr(0, at + 1);
    if (!last_.empty() && !starts_with(block_, outer))
      values_[model.name + "." + outer + "input"] = last_[0];
  }
  block_ = block;
}

void Tracer::name_outputs(const config::ModelConfig& model, const config::LayerConfig& layer,
                          const std::vector<ValueId>& out) {
  const bool alone = plan_.experiment.models.size() == 1;
  layers_[model.name + "." + layer.name] = out[0];
  if (mode_ == TraceMode::kObserved && program::is_float(graph_->shape(out[0]).dtype))
    layer_outputs_.push_back(
        {graph_->scope, static_cast<size_t>(&model - plan_.experiment.models.data()), out[0]});
  for (size_t i = 0; i < layer.as.size(); ++i) {
    values_[model.name + "." + block_ + layer.as[i]] = out[i];
    if (!block_.empty()) continue;  // the block's own
    outputs_.emplace_back(alone ? layer.as[i] : model.name + "." + layer.as[i], out[i]);
  }
}

// A tie of a parameter that the layer did not ask for would stay unseen.
void Tracer::check_ties(const config::LayerConfig& layer) {
  if (!problems_) return;
  for (const config::TieConfig& tie : layer.tie)
    if (std::find(requested_.begin(), requested_.end(), tie.own) == requested_.end())
      problems_->add(tie.origin, layer.path + ".tie." + config::toml_key(tie.own),
                     layer.type + " has no parameter '" + tie.own + "'" +
                         did_you_mean(nearest(tie.own, requested_)),
                     requested_.empty() ? "it has none at all; remove the key"
                                        : "its parameters are: " + join(requested_));
}

std::vector<ValueId> Tracer::named_inputs(const config::ItemConfig& entry,
                                          const std::vector<std::string>& from) {
  error_site_ = {entry.keys.origin("from"), entry.path + ".from"};
  std::vector<ValueId> values;
  for (const std::string& name : from) values.push_back(named(name));
  error_site_.reset();
  return values;
}

// How many there are is known, whatever the shape of those that are named.
void Tracer::check_inputs(const config::ItemConfig& entry, const std::vector<std::string>& from,
                          const std::vector<ValueId>& in, uint32_t least, uint32_t most) {
  for (const ValueId v : in) note_poison(v);
  if (in.size() >= least && in.size() <= most) return;
  if (!from.empty()) {
    poisoned_ = false;
    error_site_ = {entry.keys.origin("from"), entry.path + ".from"};
  }
  const std::string upward = most == least        ? ""
                             : most == UINT32_MAX ? " or more"
                                                  : strf(" to %u", most);
  fail_config(strf("[%s] takes %u%s input%s, found %zu; name them with from = [...]",
                   entry.type.c_str(), least, upward.c_str(), most == 1 ? "" : "s", in.size()));
}

// What a loss or a metric reads: what it names, or the model's output and the first target.
std::vector<ValueId> Tracer::loss_inputs(const config::ItemConfig& entry,
                                         const std::vector<std::string>& from, uint32_t least,
                                         uint32_t most) {
  std::vector<ValueId> in;
  if (!from.empty())
    in = named_inputs(entry, from);
  else if (most < 2)
    in = {last_.at(0)};
  else
    in = {last_.at(0), default_target()};
  check_inputs(entry, from, in, least, most);
  return in;
}

ValueId Tracer::first_input() {
  if (!source_.fields) return note_poison(poison(0));
  for (const auto& f : fields())
    if (f.role == PLAIT_FIELD_INPUT) return field_value(f.name);
  fail_config("[data." + source_.name +
              "] has no input field for the first layer; name one with `from`");
}

ValueId Tracer::default_target() {
  if (!source_.fields) return note_poison(poison(0));
  for (const auto& f : fields())
    if (f.role == PLAIT_FIELD_TARGET) return field_value(f.name);
  fail_config("[data." + source_.name +
              "] has no target field to compare with; name one with from = [...]");
}

namespace {
// Whether an op from `first` on yields a log-likelihood.
bool writes_likelihood(const Graph& g, size_t first) {
  return std::any_of(g.ops().begin() + static_cast<std::ptrdiff_t>(first), g.ops().end(),
                     [](const program::Op& op) {
                       return op.def->is_log_likelihood && op.def->is_log_likelihood(op);
                     });
}
}  // namespace

Tracer::LossSums Tracer::build_loss(const config::LossConfig& loss) {
  const plait_loss_item& item = plan_.registry->loss(loss.type);
  plugin_ = plan_.registry->plugin_of(&item);
  const std::vector<ValueId> in = loss_inputs(loss, loss.from, item.min_inputs, item.max_inputs);
  program::CBuilder builder(*graph_, hooks_);
  const size_t first_op = graph_->ops().size();
  std::vector<ValueId> out = build(plan_, *graph_, item, "loss", 2, [&](ValueId* outputs) {
    return item.build(builder.get(), &loss.options, in.data(), static_cast<uint32_t>(in.size()),
                      outputs);
  });
  for (size_t i = 0; i < out.size(); ++i)
    if (program::elements(graph_->shape(out[i])) != 1 ||
        !program::is_float(graph_->shape(out[i]).dtype))
      refuse_output(plan_, *graph_, item, "loss", i, out[i],
                    i == 0 ? "a scalar float, the sum of weighted losses"
                           : "a scalar float, the sum of weights");
  for (ValueId& v : out) v = graph_->as_type(v, plan_.precision.scalar);
  return {&loss, loss.name, loss.weight, out[0], out[1], writes_likelihood(*graph_, first_op)};
}

void Tracer::trace_metrics(size_t m) {
  const config::ModelConfig& model = plan_.experiment.models[m];
  for (const auto& metric : model.metrics) {
    if (training() && !(metric.train && plan_.models[m].trained)) continue;
    graph_->scope = model.name + "." + metric.name;
    const auto build = [&](const std::string& adapter) {
      return trace_entry(metric, [&] {
        try {
          build_metric(m, metric, adapter);
        } catch (const Error& e) {
          if (!training() || e.code() == PLAIT_ERR_MEMORY) throw;
          fail(e.code(), e.full_text() + "; if it is meant for evaluations alone: train = false");
        }
      });
    };
    if (build("")) for_each_adapter(m, build);
  }
}

void Tracer::build_metric(size_t m, const config::MetricConfig& metric,
                          const std::string& adapter) {
  const plait_metric_item& item = plan_.registry->metric(metric.type);
  plugin_ = plan_.registry->plugin_of(&item);
  const std::vector<ValueId> in =
      loss_inputs(metric, metric.from, item.min_inputs, item.max_inputs);
  program::CBuilder builder(*graph_, hooks_);
  ValueId state = build(plan_, *graph_, item, "metric", 1, [&](ValueId* outputs) {
    return item.build(builder.get(), &metric.options, in.data(), static_cast<uint32_t>(in.size()),
                      outputs);
  })[0];
  const plait_shape& s = graph_->shape(state);
  // One number may come as a scalar.
  const bool right = (s.ndim == 1 || (s.ndim == 0 && item.n_state == 1)) &&
                     program::elements(s) == item.n_state && program::is_float(s.dtype);
  if (!right)
    refuse_output(plan_, *graph_, item, "metric", 0, state,
                  strf("the state, floats (%u)", item.n_state));
  state = graph_->as_type(state, plan_.precision.scalar);
  std::string name = metric.name;
  if (plan_.experiment.models.size() > 1) name = plan_.models[m].name + "." + name;
  if (!adapter.empty()) name += "." + adapter;
  metric_states_.push_back({name, &item, m, state, false, 1, adapter});
}

ValueId Tracer::field(const std::string& name) const {
  const auto it = fields_.find(name);
  return it == fields_.end() ? 0 : it->second;
}

// Layers know nothing of it: see program/precision.hpp.
void Tracer::lower_precision() {
  const Precision& p = plan_.precision;
  if (!p.is_mixed()) return;
  program::lower_precision(*graph_, {p.low, p.low_residual, wide_ops_});
  std::vector<ValueId*> kept;
  for (Result& r : results_) {
    kept.insert(kept.end(), {&r.loss_sum, &r.weight_sum, &r.mean_sums, &r.output});
    for (ValueId& v : r.weights) kept.push_back(&v);
  }
  for (MetricState& s : metric_states_) kept.push_back(&s.state);
  for (auto& [name, v] : outputs_) kept.push_back(&v);
  for (LayerOutput& o : layer_outputs_) kept.push_back(&o.value);
  program::fold_casts(*graph_, kept, program::CastsOfInputs::kKeepForGradients);
}

ValueId Tracer::parameter_value(const std::string& name) const {
  const auto it = parameters_.find(name);
  return it == parameters_.end() ? 0 : it->second;
}

namespace {
std::unique_ptr<Tracer> trace(PlanDraft& plan, TraceMode mode, const StageOf& stages,
                              config::Problems* problems) {
  const bool training = mode != TraceMode::kEvaluation;
  // Where one of the two could not be opened, the other tells what there is to know of fields.
  TraceSource source{nullptr, nullptr, "train"};
  for (const char* name : {training ? "train" : "eval", training ? "eval" : "train"})
    if (const Dataset* dataset = plan.dataset(name); dataset && !source.fields)
      source = {&dataset->fields(), plan.experiment.dataset(name), name};
  auto tracer = std::make_unique<Tracer>(plan, training ? plan.train_feed : plan.evaluation_feed,
                                         source, mode, stages, problems);
  tracer->run();
  return tracer;
}
}  // namespace

std::unique_ptr<Tracer> trace_models(PlanDraft& plan, bool training, const StageOf& stages,
                                     config::Problems* problems) {
  return trace(plan, training ? TraceMode::kTraining : TraceMode::kEvaluation, stages, problems);
}

std::unique_ptr<Tracer> trace_observed(PlanDraft& plan) {
  return trace(
      plan, TraceMode::kObserved, [](size_t, size_t) { return 0; }, nullptr);
}

}  // namespace plait::plan
