// Evaluation and prediction: the evaluate program over a dataset, or over the host's samples.
#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/program/rule.hpp"
#include "engine/session/session.hpp"

namespace plait::session {

Evaluation Session::evaluate(const std::string& name, int64_t max_batches) {
  const plan::Dataset* d = plan_->dataset(name);
  if (!d) {
    std::vector<std::string> names;
    for (const auto& c : plan_->experiment.datasets) names.push_back(c.name);
    fail_not_found("[session] there is no [data." + name + "]" +
                   did_you_mean(nearest(name, names)) + "; there are: " + join(names));
  }
  // The program was written with one dataset's normalisation.
  const config::DatasetConfig* planned = plan_->experiment.dataset("eval");
  if (!planned) planned = plan_->experiment.dataset("train");
  const auto &own = plan_->experiment.dataset(name)->normalize, &expected = planned->normalize;
  if (!std::equal(own.begin(), own.end(), expected.begin(), expected.end(),
                  [](const auto& a, const auto& b) { return a.same_figures(b); }))
    fail_config("[session] [data." + name + "] is normalised differently from [data." +
                planned->name +
                "], which the evaluation was planned for; give both the same `normalize`");
  const Stopwatch watch;
  Feeder feeder(plan_->eval_feed, *d, plan_->eval_feed.batch);
  data::Loader loader(data::Source{&d->item(), d->handle(), name}, loader_config(name, false));
  Evaluation e;
  e.step = step_;
  e.dataset = name;
  std::vector<double> loss(plan_->models.size(), 0), weight(plan_->models.size(), 0);
  std::vector<std::vector<double>> states;
  for (const auto& m : plan_->metrics) states.emplace_back(m.item->n_state, 0.0);
  std::vector<float> scratch;
  int64_t batches = 0;
  while (max_batches == 0 || batches < max_batches) {
    const data::Batch* batch = loader.next();
    // Inside a run the request is the run's: it stops when this has failed.
    if (running_ ? cancelled_.load(std::memory_order_relaxed)
                 : cancelled_.exchange(false, std::memory_order_relaxed))
      fail(PLAIT_ERR_CANCELLED, "[session] evaluation of [data." + name + "] stopped on request");
    if (!batch) break;
    feeder.stage(*batch);
    feeder.feed(executor_, 0);
    executor_.launch(runtime::Step::kEvaluate);
    executor_.read({results_segment_, 0}, results_.data(), results_.size() * sizeof(float));
    for (size_t m = 0; m < plan_->models.size(); ++m) {
      loss[m] += results_[plan_->models[m].eval_loss_sum.offset / sizeof(float)];
      weight[m] += results_[plan_->models[m].eval_weight_sum.offset / sizeof(float)];
    }
    for (size_t k = 0; k < states.size(); ++k) {
      scratch.resize(states[k].size());
      executor_.read(plan_->metrics[k].state, scratch.data(), scratch.size() * sizeof(float));
      for (size_t i = 0; i < scratch.size(); ++i) states[k][i] += scratch[i];
    }
    e.samples += batch->valid;
    ++batches;
  }
  for (size_t m = 0; m < plan_->models.size(); ++m)
    if (weight[m] > 0 && plan_->models[m].trained) e.loss += loss[m] / weight[m];
  for (size_t k = 0; k < states.size(); ++k)
    e.metrics.emplace_back(plan_->metrics[k].name,
                           plan_->metrics[k].item->finish(states[k].data()));
  e.seconds = watch.seconds();
  last_evaluation_ = e;
  return e;
}

void write_members(JsonWriter& to, const Evaluation& e) {
  to.field("step", e.step).field("dataset", e.dataset).field("samples", e.samples);
  to.field("loss", e.loss).field("seconds", e.seconds).key("metrics").object();
  for (const auto& [name, value] : e.metrics) to.field(name, value);
  to.end_object();
}

void Session::predict(const std::vector<HostField>& fields, const std::string& value, void* out,
                      uint64_t bytes) {
  const auto at = std::find_if(plan_->outputs.begin(), plan_->outputs.end(),
                               [&](const plan::Named& n) { return n.name == value; });
  if (at == plan_->outputs.end()) {
    std::vector<std::string> names;
    for (const auto& n : plan_->outputs) names.push_back(n.name);
    fail_not_found("[session] there is no value '" + value + "' to predict" +
                   did_you_mean(nearest(value, names)) + "; there are: " + join(names));
  }
  const plan::Dataset* d =
      plan_->dataset("eval") ? plan_->dataset("eval") : plan_->dataset("train");
  Feeder feeder(plan_->eval_feed, *d, plan_->eval_feed.batch);
  const int64_t n = feeder.stage(fields, true);
  const uint64_t row = program::bytes(at->shape) / static_cast<uint64_t>(plan_->eval_feed.batch);
  if (bytes != static_cast<uint64_t>(n) * row)
    fail_invalid(strf("[session] '%s' of %ld samples takes %lu bytes, the call gives %lu",
                      value.c_str(), static_cast<long>(n),
                      static_cast<unsigned long>(static_cast<uint64_t>(n) * row),
                      static_cast<unsigned long>(bytes)));
  feeder.feed(executor_, 0);
  executor_.launch(runtime::Step::kEvaluate);
  executor_.read(at->place, out, bytes);
}

}  // namespace plait::session
