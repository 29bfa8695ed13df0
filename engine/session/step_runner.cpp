#include "engine/session/step_runner.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <utility>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/products.hpp"
#include "engine/program/elements.hpp"
#include "engine/session/batch_samples.hpp"

namespace plait::session {

namespace {

MeterUnits units_of(const plan::Plan& plan) {
  return {plan.experiment.run.log_every, plan.tokens_per_sample, plan.flops_per_sample.masked,
          plan.flops_per_sample.full};
}

// Of the sums of a step and its scalars, each from a whole cache line on.
uint64_t upload_bytes(const plan::Plan& plan) {
  const auto lines = [](uint64_t bytes) { return (bytes + 63) / 64 * 64; };
  return lines(program::bytes_of(plan.n_counts(), plan.results.dtype)) +
         lines(plan.scalars.bytes());
}

// The group of what the optimizer's own table applies to; without any such parameter the largest.
int32_t reported_group(const plan::Plan& plan) {
  std::vector<int64_t> elements(plan.groups.size(), 0), by_table(plan.groups.size(), 0);
  for (const plan::Parameter& p : plan.parameters) {
    if (p.group < 0) continue;
    elements[static_cast<size_t>(p.group)] += program::elements(p.shape);
    if (p.setting < 0) by_table[static_cast<size_t>(p.group)] += program::elements(p.shape);
  }
  const auto largest = [](const std::vector<int64_t>& of) {
    const auto at = std::max_element(of.begin(), of.end());
    return at == of.end() || *at == 0 ? -1 : static_cast<int32_t>(at - of.begin());
  };
  const int32_t own = largest(by_table);
  return own >= 0 ? own : largest(elements);
}

}  // namespace

StepRunner::StepRunner(SessionContext& context)
    : c_(context),
      schedules_(c_.plan),
      entry_(c_.plan.entry_point(plan::kTrainStep)),
      launch_groups_(c_.executor.launches(entry_)),
      numbers_(c_.executor.queue(), 4, upload_bytes(c_.plan)),
      outcomes_(c_.executor.queue(), 4, c_.plan.results.bytes()),
      scalars_(c_.plan.scalars),
      results_(c_.plan.results),
      step_sums_({c_.plan.results.segment, c_.plan.results.dtype, c_.plan.n_counts()}),
      meter_(units_of(c_.plan)),
      metrics_(c_.plan),
      reported_group_(reported_group(c_.plan)),
      guard_(c_, results_) {
  if (const plan::Dataset* train = c_.plan.dataset("train"))
    feeder_.emplace(entry_.feed, *train, entry_.feed.batch * c_.plan.accumulation,
                    c_.executor.device());
  c_.state.adapter_updates.resize(
      static_cast<size_t>(std::max<int64_t>(c_.plan.step.elements - 1, 0)));
  write_loss_scale();
}

Feeder& StepRunner::feeder() {
  c_.need_data("step");
  return *feeder_;
}

data::DataLoader& StepRunner::loader() {
  c_.need_data("step");
  if (!loader_) {
    data::DataLoaderConfig l = plan::loader_config(c_.plan, "train", true);
    l.first_batch = c_.state.next_batch;
    const plan::Dataset& d = *c_.plan.dataset("train");
    loader_.emplace(d.source(), l);
  }
  return *loader_;
}

StepResult StepRunner::step() {
  return c_.on_all_ranks("step", [&] {
    if (drain_error_) std::rethrow_exception(std::exchange(drain_error_, nullptr));
    if (drained_) return *std::exchange(drained_, std::nullopt);
    if (in_flight() == 0) launch_next();
    return finish_step();
  });
}

void StepRunner::launch_next() {
  const uint64_t start_ns = monotonic_ns();  // to wait for data is a part of the step
  const data::Batch* batch = loader().next();
  data_ns_ = monotonic_ns() - start_ns;
  if (!batch) fail(PLAIT_ERR_DATA, "[session] [data.train] holds no samples");
  feeder_->set_batch(*batch);
  launch_step(start_ns, batch->epoch, batch->valid, batch->index + 1);
}

StepResult StepRunner::step(const std::vector<HostField>& fields) {
  // An invalid feed is refused before the collective call, so that it does not end the job.
  discard();
  const int64_t n = feeder().set_batch(fields, false);
  return c_.on_all_ranks("step", [&] {
    launch_step(monotonic_ns(), 0, n, -1);
    return finish_step();
  });
}

// Writes the learning rates of this step as one block: all scalars lie in one segment.
void StepRunner::write_scalars() {
  for (size_t g = 0; g < c_.plan.groups.size(); ++g) {
    const double factor = schedules_.factor(g, launched_ + 1);
    scalars_.set(c_.plan.groups[g].learning_rate_at, c_.plan.groups[g].learning_rate * factor);
    scalars_.set(c_.plan.groups[g].schedule_factor_at, factor);
  }
  numbers_.write(c_.executor.address(scalars_.place()), scalars_.data(), scalars_.bytes());
}

void StepRunner::drain() {
  if (drain_error_) std::rethrow_exception(drain_error_);
  if (in_flight() == 0) return;
  try {
    c_.abort_on_error("step", [&] {
      // At most one step is in flight when the host calls: it was launched while the results of the
      // previous one were awaited.
      drained_ = finish_step();
    });
  } catch (...) {
    drain_error_ = std::current_exception();  // the caller may be a callback that ignores it
    throw;
  }
}

void StepRunner::launch_step(uint64_t start_ns, int64_t epoch, int64_t samples,
                             int64_t next_batch) {
  const int64_t step = launched_ + 1;
  Launched& launch = launches_[step % 2];
  launch = {epoch, next_batch, start_ns, 0, {}};
  c_.state.modified();
  c_.ranks.at_step(step);
  waited_before_ = waited_ns();
  step_sums_.set(c_.plan.results.at(0), static_cast<double>(samples));
  step_sums_.set(c_.plan.results.at(1), c_.cancelled.load(std::memory_order_relaxed) ? 1 : 0);
  step_sums_.set(c_.plan.results.at(2), wants_save_ ? 1 : 0);
  if (c_.plan.busy_ranks > 0)
    step_sums_.set(c_.plan.results.at(plan::Plan::kStepSums + c_.plan.rank), own_times_.busy);
  numbers_.begin();
  numbers_.write(c_.executor.address(c_.plan.step_sums), step_sums_.data(), step_sums_.bytes());
  write_scalars();
  numbers_.end();
  c_.refresh_low();
  c_.normalizer.ensure();
  for (const runtime::Executor::LaunchGroup& group : launch_groups_) {
    feed(entry_, *group.first, step);
    c_.executor.launch(group);
  }
  launch.results = outcomes_.ask(c_.executor.address(results_.place()));
  if (looks_ahead_) launch.outside = feeder_->find_out_of_range();
  launched_ = step;
}

void StepRunner::feed(const plan::EntryPoint& entry, const plan::Launch& launch, int64_t step) {
  if (launch.feed < 0) return;
  const int64_t micro = entry_.feed.batch;
  const int64_t share = c_.plan.at.data * c_.plan.accumulation * micro;
  feeder_->feed(c_.executor, entry.stage_feeds[static_cast<size_t>(launch.feed)], launch.micro,
                launch.slot, step, share + launch.micro * micro);
}

void StepRunner::feed_again(const plan::EntryPoint& entry, const plan::Launch& launch) {
  feed(entry, launch, c_.state.step);
}

StepResult StepRunner::finish_step() {
  const Launched launch = launches_[(c_.state.step + 1) % 2];
  StepResult r;
  try {
    std::memcpy(results_.data(), outcomes_.get(launch.results), results_.bytes());
    if (in_flight() == 1) c_.executor.sync();  // reports asynchronous errors
  } catch (...) {
    launched_ = c_.state.step;  // neither this step nor one launched behind it will finish
    throw;
  }
  read_results(r);
  ++c_.state.step;
  if (!r.skipped) count_updates();
  r.step = c_.state.step;
  r.epoch = launch.epoch;
  if (reported_group_ >= 0)
    r.learning_rate = learning_rate(static_cast<size_t>(reported_group_), r.step);
  r.finished = c_.plan.total_steps > 0 && c_.state.step >= c_.plan.total_steps;
  add_totals(launch, r);
  // Before the guard, which may throw: a save after its error must not repeat the batch.
  if (launch.next_batch >= 0) c_.state.next_batch = launch.next_batch;
  NumericsGuard::Samples samples{launch.outside, "", std::max<int64_t>(launch.next_batch, 0) - 1};
  if (r.skipped && !looks_ahead_) {  // else the next step's are staged by now
    feeder_->fetch(c_.executor, false);
    samples.outside = feeder_->find_out_of_range();
    samples.non_finite = feeder_->non_finite_text(
        launch.next_batch < 0 ? std::function<std::string(int64_t)>()
                              : [&](int64_t row) { return name_of_sample(samples.batch, row); });
  }
  guard_.check(r, samples, in_flight() > 0);
  return r;
}

// Of a row that this rank read of a batch of [data.train].
std::string StepRunner::name_of_sample(int64_t batch, int64_t row) const {
  const int64_t first = plan::loader_config(c_.plan, "train", true).row_begin;
  return strf("sample %ld (from 0)", static_cast<long>(BatchSamples(c_.plan, batch)[first + row]));
}

// Counts the step in the totals of the run, and its time in the averages. r.samples: of the step
// before, of the run after.
void StepRunner::add_totals(const Launched& launch, StepResult& r) {
  StepMeter::Step step{launch.start_ns, monotonic_ns(), r.samples};
  c_.state.samples += r.samples;
  c_.state.tokens += r.samples * c_.plan.tokens_per_sample;
  r.samples = c_.state.samples;
  r.tokens = c_.state.tokens;
  r.skipped_steps = c_.state.step - (c_.state.updates - c_.state.updates_before);
  r.seconds = static_cast<double>(step.end_ns - std::max(launch.start_ns, finished_ns_)) * 1e-9;
  finished_ns_ = step.end_ns;
  note_times(r.seconds);
  const bool first = !peak_flops_;
  const bool begins = meter_.add(step, peak_flops(), r);
  metrics_.add(results_, begins, !r.skipped);
  r.metrics = metrics_.values();
  if (!first) return;
  // The device may have measured meanwhile.
  finished_ns_ = monotonic_ns();
  meter_.pause();
}

double StepRunner::learning_rate(size_t group, int64_t step) const {
  return c_.plan.groups[group].learning_rate * schedules_.factor(group, step);
}

uint64_t StepRunner::waited_ns() const {
  const runtime::Communicators* groups = c_.ranks.communicators();
  return groups ? groups->waited_ns() : 0;
}

// Of the step that has ended. What a device does by itself is no time of the host's calls.
void StepRunner::note_times(double seconds) {
  own_times_ = {seconds, static_cast<double>(waited_ns() - waited_before_) * 1e-9,
                static_cast<double>(data_ns_) * 1e-9, 0};
  if (!c_.executor.device().records())
    own_times_.busy = std::max(0.0, seconds - own_times_.wait - own_times_.data);
  data_ns_ = 0;
}

// Asked for when the first step is done: what has not run needs no figure. No device tells the peak
// of TF32.
double StepRunner::peak_flops() {
  if (!peak_flops_) {
    const double given = c_.plan.experiment.run.peak_tflops * 1e12;
    const bool unknown = !c_.plan.precision.is_mixed() && plan::tf32_products(c_.plan).rounded > 0;
    const double one = given > 0 || unknown || c_.plan.flops_per_sample.masked == 0
                           ? given
                           : c_.executor.device().peak_flops(c_.plan.precision.products());
    peak_flops_ = one * c_.ranks.size();
  }
  return *peak_flops_;
}

void StepRunner::read_results(StepResult& r) {
  double squares = 0, clipped = 0;
  const auto at = [&](plan::BufferRef p) { return results_.get(p); };
  r.samples = std::lround(at(c_.plan.step_sums));
  r.stop_agreed = at(c_.plan.results.at(1)) > 0;
  r.save_agreed = at(c_.plan.results.at(2)) > 0;
  for (size_t i = 0; i < c_.plan.models.size(); ++i) {
    const plan::Model& m = c_.plan.models[i];
    if (!m.trained) continue;
    const double clip = c_.plan.experiment.models[i].optimizer->clip_grad_norm;
    r.loss += at(m.loss);
    r.skipped = r.skipped || at(m.finite) == 0;
    for (const plan::GradientNorm& one : m.norms) {
      const double norm = at(one.norm), kept = clip > 0 && norm > clip ? clip : norm;
      squares += norm * norm;
      clipped += kept * kept;
    }
  }
  r.grad_norm = std::sqrt(squares);
  r.grad_norm_clipped = std::sqrt(clipped);
  read_loss_scale(r);
}

void StepRunner::read_loss_scale(StepResult& r) {
  if (!c_.plan.scaler.exists()) return;
  r.loss_scale = c_.state.loss_scale[0];
  for (size_t i = 0; i < c_.state.loss_scale.size(); ++i)
    c_.state.loss_scale[i] = results_.get(
        plan::offset_by(c_.plan.scaler_after, static_cast<int64_t>(i), c_.plan.results.dtype));
}

// Sets the device's loss scale to that of TrainingState.
void StepRunner::write_loss_scale() {
  if (!c_.plan.scaler.exists()) return;
  HostBuffer numbers(c_.plan.scaler);
  const auto set = [&](int64_t i, double v) { numbers.set(c_.plan.scaler.at(i), v); };
  for (size_t i = 0; i < c_.state.loss_scale.size(); ++i)
    set(static_cast<int64_t>(i), c_.state.loss_scale[i]);
  set(3, c_.state.loss_scale[0] / c_.plan.loss_rows);
  c_.executor.write(numbers.place(), numbers.data(), numbers.bytes());
  c_.executor.sync();
}

void StepRunner::warn_of_schedules() const {
  std::set<std::string> told;
  try {
    for (size_t g = 0; g < c_.plan.groups.size(); ++g) {
      const std::string what = schedules_.doubt(g, c_.plan.total_steps);
      if (what.empty()) continue;
      const config::ItemConfig& schedule = *c_.plan.groups[g].schedule;
      const std::string text = schedule.origin.text() + ": " + schedule.path +
                               ": the learning rate " + what +
                               "; set its steps (total_steps, warmup_steps) to fit the run";
      if (told.insert(text).second) c_.log.warn(text);
    }
  } catch (const Error&) {  // the step that needs the factor tells of it
  }
}

void StepRunner::discard() {
  drain_error_ = nullptr;
  drain();
  drained_.reset();
}

void StepRunner::restore(bool counters) {
  launched_ = c_.state.step;
  meter_.restart();
  if (!counters) return;
  write_updates();
  write_loss_scale();
  if (loader_) loader_->seek(c_.state.next_batch);
}

// As the update program does on the device.
void StepRunner::count_updates() {
  ++c_.state.updates;
  for (const plan::Model& m : c_.plan.models)
    for (const plan::GradientNorm& norm : m.norms)
      if (!norm.weights.empty() && results_.get(norm.active) > 0)
        ++c_.state.adapter_updates[static_cast<size_t>(norm.step - 1)];
}

// Sets the device's counts of updates to what a checkpoint has.
void StepRunner::write_updates() {
  HostBuffer made(c_.plan.step);
  made.set(made.place(), static_cast<double>(c_.state.updates));
  for (size_t i = 0; i < c_.state.adapter_updates.size(); ++i)
    made.set(c_.plan.step.at(static_cast<int64_t>(i) + 1),
             static_cast<double>(c_.state.adapter_updates[i]));
  c_.executor.write(made.place(), made.data(), made.bytes());
  c_.executor.sync();
}

void StepRunner::forget_updates(const std::string& model, const std::string& adapter) {
  bool changed = false;
  for (const plan::Model& m : c_.plan.models)
    for (const plan::GradientNorm& norm : m.norms) {
      if (norm.weights.empty() || m.name != model || norm.adapter != adapter) continue;
      c_.state.adapter_updates[static_cast<size_t>(norm.step - 1)] = 0;
      changed = true;
    }
  if (changed) write_updates();
}

void StepRunner::launch_ahead(const std::function<bool(int64_t step)>& pauses_behind) {
  if (!looks_ahead_ || has_drained()) return;
  c_.on_all_ranks("step", [&] {
    while (launched_ < c_.plan.total_steps && in_flight() < 2 &&
           (in_flight() == 0 || !pauses_behind(launched_)))
      launch_next();
  });
}

void StepRunner::fail_numerics(const StepResult& r, const std::string& saved) {
  guard_.fail(r, saved, in_flight() > 0);
}

}  // namespace plait::session
