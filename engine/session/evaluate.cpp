// Evaluation and prediction: the evaluate program on a dataset, or on samples of the host.
#include <algorithm>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/plugin_call.hpp"
#include "engine/base/text.hpp"
#include "engine/program/op_def.hpp"
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
  // The program contains the normalisation of one dataset.
  const config::DatasetConfig* planned = plan_->experiment.dataset("eval");
  if (!planned) planned = plan_->experiment.dataset("train");
  const auto &own = plan_->experiment.dataset(name)->normalize, &expected = planned->normalize;
  if (!std::equal(own.begin(), own.end(), expected.begin(), expected.end(),
                  [](const auto& a, const auto& b) { return a.same_values(b); }))
    fail_config("[session] [data." + name + "] is normalised differently from [data." +
                planned->name +
                "], which the evaluation was planned for; give both the same `normalize`");
  drain();
  return on_all_ranks("evaluation", [&] { return evaluate_shard(*d, max_batches); });
}

// Evaluates this replica's rows of each batch, then sums over all replicas.
Evaluation Session::evaluate_shard(const plan::Dataset& d, int64_t max_batches) {
  const Stopwatch watch;
  Feeder feeder(plan_->eval_feed, d, plan_->eval_feed.batch);
  data::DataLoader loader(d.source(), plan::loader_config(*plan_, d.name(), false));
  // Samples, requests to stop, loss and weight of each model, states of the metrics.
  const size_t n_models = plan_->models.size();
  size_t n = 2 + 2 * n_models;
  for (const auto& m : plan_->metrics) n += m.item->n_state;
  std::vector<double> totals(n, 0);
  std::vector<char> scratch;
  const uint32_t type = plan_->precision.scalar;
  std::string outside;  // why the loss is not finite, if this rank finds the cause
  // A rank that stops alone would leave the others waiting inside the program.
  const bool exchanges = plan_->grid.tensor() > 1 || plan_->grid.pipeline() > 1 || plan_->zero == 3;
  for (int64_t batches = 0; max_batches == 0 || batches < max_batches; ++batches) {
    const data::Batch* batch = loader.next();
    // Inside a run the request also stops the run, after this error.
    if (running_ ? cancelled_.load(std::memory_order_relaxed)
                 : cancelled_.exchange(false, std::memory_order_relaxed))
      totals[1] = 1;
    if (!batch || (totals[1] > 0 && !exchanges)) break;
    feeder.set_batch(*batch);
    launch_evaluation(feeder);
    executor_.read(results_.place(), results_.data(), results_.bytes());
    bool finite = true;
    for (size_t m = 0; m < n_models; ++m) {
      const double loss_sum = results_.get(plan_->models[m].eval_loss_sum);
      finite = finite && std::isfinite(loss_sum);
      totals[2 + 2 * m] += loss_sum;
      totals[3 + 2 * m] += results_.get(plan_->models[m].eval_weight_sum);
    }
    if (!finite && outside.empty())
      outside = out_of_range_text(feeder.find_out_of_range(), "[data." + d.name() + "]",
                                  "the evaluation");
    size_t at = 2 + 2 * n_models;
    for (const auto& m : plan_->metrics) {
      scratch.resize(program::bytes_of(m.item->n_state, type));
      executor_.read(m.state, scratch.data(), scratch.size());
      for (uint32_t i = 0; i < m.item->n_state; ++i)
        totals[at++] += program::load_element(type, scratch.data(), i);
    }
    if (plan_->at.pipeline == 0) totals[0] += static_cast<double>(batch->valid);
  }
  sum_over_replicas(totals);
  if (totals[1] > 0)
    fail_collective(PLAIT_ERR_CANCELLED,
                    "[session] evaluation of [data." + d.name() + "] stopped on request");
  for (size_t m = 0; m < n_models; ++m)
    if (!std::isfinite(totals[2 + 2 * m])) fail_out_of_range(outside);
  Evaluation e;
  e.step = step_;
  e.dataset = d.name();
  e.samples = std::llround(totals[0]);
  for (size_t m = 0; m < n_models; ++m)
    if (totals[3 + 2 * m] > 0 && plan_->models[m].trained)
      e.loss += totals[2 + 2 * m] / totals[3 + 2 * m];
  const double* state = totals.data() + 2 + 2 * n_models;
  for (const auto& m : plan_->metrics) {
    const double metric =
        call_plugin({plan_->registry->plugin_of(m.item), "finish", "metric", m.item->name},
                    [&] { return m.item->finish(state); });
    e.metrics.emplace_back(m.name, metric);
    state += m.item->n_state;
  }
  e.seconds = watch.seconds();
  last_evaluation_ = e;
  return e;
}

// Launches the evaluation programs of this rank on the staged samples.
void Session::launch_evaluation(Feeder& feeder) {
  for (const runtime::Executor::LaunchGroup& group : executor_.evaluation()) {
    const plan::Launch& t = *group.first;
    if (t.feed >= 0)
      feeder.feed(executor_, plan_->eval_feeds[static_cast<size_t>(t.feed)], 0, t.slot, 0, 0);
    executor_.launch(group);
  }
}

void Session::sum_over_replicas(std::vector<double>& totals) {
  if (plan_->reduce_metrics_program < 0) return;
  executor_.write(plan_->metric_sums.at(0), totals.data(), totals.size() * sizeof(double));
  executor_.launch(plan_->reduce_metrics_program);
  executor_.read(plan_->metric_sums.at(0), totals.data(), totals.size() * sizeof(double));
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
                               [&](const plan::Output& n) { return n.name == value; });
  if (at == plan_->outputs.end()) {
    std::vector<std::string> names;
    for (const auto& n : plan_->outputs) names.push_back(n.name);
    fail_not_found("[session] there is no value '" + value + "' to predict" +
                   did_you_mean(nearest(value, names)) + "; there are: " + join(names));
  }
  const plan::Dataset* d =
      plan_->dataset("eval") ? plan_->dataset("eval") : plan_->dataset("train");
  Feeder feeder(plan_->eval_feed, *d, plan_->eval_feed.batch);
  const int64_t n = feeder.set_batch(fields, true);
  const uint64_t row = program::bytes(at->shape) / static_cast<uint64_t>(plan_->eval_feed.batch);
  if (bytes != static_cast<uint64_t>(n) * row)
    fail_invalid(strf("[session] '%s' of %ld samples takes %lu bytes, the call gives %lu",
                      value.c_str(), static_cast<long>(n),
                      static_cast<unsigned long>(static_cast<uint64_t>(n) * row),
                      static_cast<unsigned long>(bytes)));
  drain();
  on_all_ranks("prediction", [&] {
    // An index out of range would give NaN, or values that look like results.
    const std::string outside =
        out_of_range_text(feeder.find_out_of_range(false), "[feed]", "the prediction");
    if (!outside.empty()) fail_invalid(outside);
    launch_evaluation(feeder);
    executor_.launch(plan_->broadcast_outputs_program);
    executor_.read(at->buffer, out, bytes);
  });
}

}  // namespace plait::session
