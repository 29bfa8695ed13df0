#include "engine/session/evaluator.hpp"

#include <algorithm>
#include <cmath>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/observe/work_progress.hpp"
#include "engine/plan/field_texts.hpp"
#include "engine/plan/layout.hpp"
#include "engine/program/op_def.hpp"
#include "engine/session/metric_sums.hpp"
#include "engine/session/numerics.hpp"

namespace plait::session {

Evaluator::Evaluator(SessionContext& context, StepRunner& steps)
    : c_(context),
      steps_(steps),
      batch_(c_.plan.entry_point(plan::kEvaluate)),
      predict_(c_.plan.entry_point(plan::kPredict)),
      end_(c_.plan.find_entry_point(plan::kReduceMetrics)),
      results_(c_.plan.results) {}

Evaluation Evaluator::evaluate(const std::string& name, int64_t max_batches) {
  c_.need_data("evaluate");
  const plan::Dataset* d = c_.plan.dataset(name);
  if (!d) {
    std::vector<std::string> names;
    for (const auto& c : c_.plan.experiment.datasets) names.push_back(c.name);
    fail_not_found("[session] there is no [data." + name + "]" +
                   did_you_mean(nearest(name, names)) + "; there are: " + join(names) +
                   "; add it, or name another one (plait eval --dataset NAME)");
  }
  if (!plan::fields_given(*c_.plan.experiment.dataset(name)).empty())
    fail_config("[session] [data." + name + "] tells its fields and has no samples to evaluate; " +
                "leave out " + c_.plan.experiment.dataset(name)->path + ".fields");
  // The program contains the normalisation of one dataset.
  const config::DatasetConfig* planned = c_.plan.experiment.dataset("eval");
  if (!planned) planned = c_.plan.experiment.dataset("train");
  const auto &own = c_.plan.experiment.dataset(name)->normalize, &expected = planned->normalize;
  if (!std::equal(own.begin(), own.end(), expected.begin(), expected.end(),
                  [](const auto& a, const auto& b) { return a.same_values(b); }))
    fail_config("[session] [data." + name + "] is normalised differently from [data." +
                planned->name +
                "], which the evaluation was planned for; give both the same `normalize`");
  steps_.drain();
  return c_.on_all_ranks("evaluation", [&] { return evaluate_shard(*d, max_batches); });
}

// Evaluates this replica's rows of each batch, then sums over all replicas.
Evaluation Evaluator::evaluate_shard(const plan::Dataset& d, int64_t max_batches) {
  const Stopwatch watch;
  Feeder feeder(batch_.feed, d, batch_.feed.batch, c_.executor.device());
  data::DataLoader loader(d.source(), plan::loader_config(c_.plan, d.name(), false));
  // Samples, requests to stop, loss and weight of each model, states of the metrics.
  const size_t n_models = c_.plan.models.size();
  size_t n = 2 + 2 * n_models;
  for (const auto& m : c_.plan.metrics) n += static_cast<size_t>(m.n_state());
  std::vector<double> totals(n, 0);
  std::vector<char> scratch;
  const uint32_t type = c_.plan.precision.scalar;
  std::string outside;  // why the loss is not finite, if this rank finds the cause
  // A rank that stops alone would leave the others waiting inside the program.
  const bool exchanges =
      c_.plan.grid.tensor() > 1 || c_.plan.grid.pipeline() > 1 || c_.plan.zero == 3;
  const int64_t there = loader.batches_per_epoch(),
                all = max_batches == 0 ? there : std::min(max_batches, there);
  observe::ProgressConfig shown = observe::progress_config_for_stderr();
  shown.enabled = c_.settings.progress && c_.plan.experiment.run.progress;
  observe::WorkProgress progress(shown, "evaluating [data." + d.name() + "]", "batches", all);
  for (int64_t batches = 0; max_batches == 0 || batches < max_batches; ++batches) {
    progress.update(batches);
    const data::Batch* batch = loader.next();
    // Inside a run the request also stops the run, after this error.
    if (c_.running ? c_.cancelled.load(std::memory_order_relaxed)
                   : c_.cancelled.exchange(false, std::memory_order_relaxed))
      totals[1] = 1;
    if (!batch || (totals[1] > 0 && !exchanges)) break;
    feeder.set_batch(*batch);
    launch(batch_, feeder);
    c_.executor.read(results_.place(), results_.data(), results_.bytes());
    bool finite = true;
    for (size_t m = 0; m < n_models; ++m) {
      const double loss_sum = results_.get(c_.plan.models[m].eval_loss_sum);
      finite = finite && std::isfinite(loss_sum);
      totals[2 + 2 * m] += loss_sum;
      totals[3 + 2 * m] += results_.get(c_.plan.models[m].eval_weight_sum);
    }
    if (!finite && outside.empty())
      outside = out_of_range_text(c_.plan, feeder.find_out_of_range(), "[data." + d.name() + "]",
                                  "the evaluation");
    size_t at = 2 + 2 * n_models;
    for (const auto& m : c_.plan.metrics) {
      scratch.resize(program::bytes_of(m.n_state(), type));
      c_.executor.read(m.state, scratch.data(), scratch.size());
      for (int64_t i = 0; i < m.n_state(); ++i)
        totals[at++] += program::load_element(type, scratch.data(), i);
    }
    if (c_.plan.at.pipeline == 0) totals[0] += static_cast<double>(batch->valid);
  }
  sum_over_replicas(totals);
  // A request that came too late to stop this evaluation must not stop the next one.
  if (!c_.running) c_.cancelled.store(false, std::memory_order_relaxed);
  if (totals[1] > 0)
    fail_collective(PLAIT_ERR_CANCELLED,
                    "[session] evaluation of [data." + d.name() + "] stopped on request");
  for (size_t m = 0; m < n_models; ++m)
    if (!std::isfinite(totals[2 + 2 * m])) fail_out_of_range(c_.ranks, outside);
  Evaluation e;
  e.step = c_.state.step;
  e.dataset = d.name();
  e.samples = std::llround(totals[0]);
  e.counts_nothing = true;
  std::vector<std::string> without;  // trained models whose losses count nothing
  for (size_t m = 0; m < n_models; ++m) {
    if (!c_.plan.models[m].trained) continue;
    const double loss = loss_of(m, totals);
    if (std::isnan(loss) && std::isfinite(totals[2 + 2 * m])) {  // it has no weight
      without.push_back("'" + c_.plan.models[m].name + "'");
      continue;
    }
    e.counts_nothing = false;
    e.loss += loss;
  }
  if (e.counts_nothing) e.loss = std::nan("");
  warn_without_loss(e, without);
  const double* state = totals.data() + 2 + 2 * n_models;
  for (const auto& m : c_.plan.metrics) {
    e.metrics.emplace_back(m.name, metric_value(c_.plan, m, state, totals[3 + 2 * m.model]));
    state += m.n_state();
  }
  e.perplexity = perplexity(e);
  e.seconds = watch.seconds();
  last_ = e;
  return e;
}

// Models whose losses count nothing are named where others' do.
void Evaluator::warn_without_loss(const Evaluation& e,
                                  const std::vector<std::string>& models) const {
  if (models.empty() || c_.ranks.rank() != 0) return;
  const std::string of =
      e.counts_nothing ? "" : std::string(" of model") + (models.size() > 1 ? "s " : " ");
  c_.log.warn("[session] the evaluation of [data." + e.dataset + "] has no loss" + of +
              (e.counts_nothing ? "" : join(models)) + ": " + counts_nothing_text(c_.plan) +
              "; correct the weights or the labels");
}

// A loss that counts no weight, because all labels are ignored, adds nothing; NaN if none of the
// model's losses counts any.
double Evaluator::loss_of(size_t model, const std::vector<double>& totals) const {
  const auto mean = [](const double* sums) { return sums[1] != 0 ? sums[0] / sums[1] : 0; };
  const double* state = totals.data() + 2 + 2 * c_.plan.models.size();
  bool separate = false;
  double sum = 0, weight = 0;
  for (const plan::Metric& m : c_.plan.metrics) {
    if (m.model == model && m.has_weights && m.adapter.empty()) {
      separate = true;
      sum += m.factor * mean(state);
      weight += state[1];
    }
    state += m.n_state();
  }
  if (!separate) weight = totals[3 + 2 * model];
  if (weight == 0) return std::nan("");
  return separate ? sum : mean(totals.data() + 2 + 2 * model);
}

// Of the one model that trains, if its loss is a log-likelihood.
double Evaluator::perplexity(const Evaluation& e) const {
  const auto trained = [](const plan::Model& m) { return m.trained; };
  const auto& models = c_.plan.models;
  const auto model = std::find_if(models.begin(), models.end(), trained);
  if (model == models.end() || !model->has_perplexity) return 0;
  return std::count_if(models.begin(), models.end(), trained) == 1 ? std::exp(e.loss) : 0;
}

// Launches the programs of an entry point on the staged samples.
void Evaluator::launch(const plan::EntryPoint& entry, Feeder& feeder) {
  c_.refresh_low();
  c_.normalizer.ensure();
  for (const runtime::Executor::LaunchGroup& group : c_.executor.launches(entry)) {
    const plan::Launch& t = *group.first;
    if (t.feed >= 0)
      feeder.feed(c_.executor, entry.stage_feeds[static_cast<size_t>(t.feed)], 0, t.slot, 0, 0);
    c_.executor.launch(group);
  }
}

void Evaluator::sum_over_replicas(std::vector<double>& totals) {
  if (!end_) return;
  c_.executor.write(c_.plan.metric_sums.at(0), totals.data(), totals.size() * sizeof(double));
  for (const auto& group : c_.executor.launches(*end_)) c_.executor.launch(group);
  c_.executor.read(c_.plan.metric_sums.at(0), totals.data(), totals.size() * sizeof(double));
}

void write_members(JsonWriter& to, const Evaluation& e) {
  to.field("step", e.step).field("dataset", e.dataset).field("samples", e.samples);
  to.field("loss", e.loss);
  if (e.perplexity > 0) to.field("token_perplexity", e.perplexity);
  to.field("seconds", e.seconds).key("metrics").object();
  for (const auto& [name, value] : e.metrics)
    if (!std::isnan(value)) to.field(name, value);
  to.end_object();
}

const plan::Output& output_of(const plan::Plan& plan, const std::string& value) {
  const auto is_it = [&](const plan::Output& n) { return n.name == value; };
  const auto at = std::find_if(plan.outputs.begin(), plan.outputs.end(), is_it);
  if (at != plan.outputs.end()) return *at;
  const auto& left_out = plan.outputs_left_out;
  if (const auto no = std::find_if(left_out.begin(), left_out.end(), is_it); no != left_out.end())
    fail_config(
        strf("[session] the value '%s', %llu bytes for a batch, is not kept: "
             "evaluate.outputs is \"%s\"; set it to \"all\"",
             value.c_str(), static_cast<unsigned long long>(program::bytes(no->shape)),
             plan.experiment.evaluate.outputs.c_str()));
  std::vector<std::string> names;
  for (const auto& n : plan.outputs) names.push_back(n.name);
  fail_not_found("[session] there is no value '" + value + "' to predict" +
                 did_you_mean(nearest(value, names)) + "; there are: " + join(names));
}

void Evaluator::predict(const std::vector<HostField>& fields,
                        const std::vector<Prediction>& values) {
  c_.need_data("predict");
  std::vector<const plan::Output*> outputs;
  for (const Prediction& p : values) outputs.push_back(&output_of(c_.plan, p.value));
  const plan::Dataset* d =
      c_.plan.dataset("eval") ? c_.plan.dataset("eval") : c_.plan.dataset("train");
  Feeder feeder(predict_.feed, *d, predict_.feed.batch, c_.executor.device());
  const int64_t n = feeder.set_batch(fields, true);
  for (size_t i = 0; i < values.size(); ++i) {
    if (!values[i].out) continue;
    const uint64_t needed = program::bytes(outputs[i]->shape) /
                            static_cast<uint64_t>(predict_.feed.batch) * static_cast<uint64_t>(n);
    if (values[i].bytes != needed)
      fail_invalid(strf("[session] '%s' of %ld samples takes %lu bytes, the call gives %lu",
                        values[i].value.c_str(), static_cast<long>(n),
                        static_cast<unsigned long>(needed),
                        static_cast<unsigned long>(values[i].bytes)));
  }
  steps_.drain();
  c_.on_all_ranks("prediction", [&] {
    // An index out of range would give NaN, or values that look like results.
    feeder.fetch(c_.executor, true);
    const std::string outside =
        out_of_range_text(c_.plan, feeder.find_out_of_range(false), "[feed]", "the prediction");
    if (!outside.empty()) fail_invalid(outside);
    launch(predict_, feeder);
    for (size_t i = 0; i < values.size(); ++i)
      if (values[i].out) c_.executor.read(outputs[i]->buffer, values[i].out, values[i].bytes);
    c_.executor.sync();  // also where nothing was read
  });
}

}  // namespace plait::session
