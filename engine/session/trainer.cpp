// The training loop: step, log, evaluate, save, stop.
#include <algorithm>
#include <cmath>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/observe/progress.hpp"
#include "engine/session/session.hpp"

namespace plait::session {

// One call of Session::run().
class Trainer {
 public:
  explicit Trainer(Session& s)
      : s_(s),
        experiment_(s.plan_->experiment),
        first_step_(s.step_),
        saved_at_(s.resumed_from_.empty() ? -1 : s.step_),  // already saved
        checkpoint_(s.resumed_from_),
        progress_(progress_config()) {}

  StepResult run();

 private:
  observe::ProgressConfig progress_config() const {
    observe::ProgressConfig c = observe::progress_config_for_stderr();
    c.enabled = s_.settings_.progress && experiment_.run.progress;
    return c;
  }
  void log_step(const StepResult& r);
  bool evaluate(const StepResult& r);  // true: early stopping
  Evaluation evaluation(const StepResult& r);
  int stop_metric() const;
  [[noreturn]] void stop(const StepResult& r);
  void save(const StepResult& r, bool continues);
  void drain_save(const StepResult& r);
  void finish_save(const Error& e);
  void saved(const StepResult& r, const SavedCheckpoint& s);
  void status(const char* state, const StepResult& r, const std::string& message = {});
  void ended(const char* state, const std::string& message);
  void launch_ahead();
  bool pauses_behind(int64_t step) const;
  bool made(const StepResult& r);
  StepResult loop();
  StepResult loop_and_save();

  Session& s_;
  const config::Experiment& experiment_;
  int64_t first_step_, saved_at_, evaluated_at_ = -1;
  std::string checkpoint_;  // the newest
  observe::Progress progress_;
  Stopwatch watch_;
};

void Trainer::status(const char* state, const StepResult& r, const std::string& message) {
  if (!s_.run_files_) return;
  s_.run_files_->status({state, r.step, s_.plan_->total_steps, r.loss, message, checkpoint_});
}

void Trainer::ended(const char* state, const std::string& message) {
  StepResult at;
  at.step = s_.step_;
  status(state, at, message);
}

void Trainer::log_step(const StepResult& r) {
  const double elapsed = watch_.seconds();
  const double rate = r.seconds > 0 ? static_cast<double>(experiment_.batch.global) / r.seconds : 0;
  if (s_.run_files_ && (r.step % experiment_.run.log_every == 0 || r.finished || r.skipped)) {
    const double now = unix_seconds();
    observe::StepRecord record;
    record.step = r.step;
    record.samples = r.samples;
    record.time = now;
    record.elapsed_s = elapsed;
    record.loss = r.loss;
    record.lr = r.learning_rate;
    record.grad_norm = r.grad_norm;
    record.step_ms = r.seconds * 1e3;
    record.samples_per_s = rate;
    record.skipped = r.skipped;
    s_.run_files_->metrics().step(record);
    if (s_.run_files_->event_due(now) || r.finished) {
      auto& events = s_.run_files_->events();
      events.scalar("train/loss", r.step, now, r.loss);
      events.scalar("train/lr", r.step, now, r.learning_rate);
      events.scalar("train/grad_norm", r.step, now, r.grad_norm);
      events.scalar("train/samples_per_s", r.step, now, rate);
    }
  }
  observe::ProgressState p;
  p.step = r.step;
  p.steps = s_.plan_->total_steps;
  p.loss = r.loss;
  p.lr = r.learning_rate;
  p.samples_per_s =
      elapsed > 0 ? static_cast<double>((r.step - first_step_) * experiment_.batch.global) / elapsed
                  : 0;
  p.elapsed_s = elapsed;
  p.first_step = first_step_;
  progress_.update(p);
}

// The metric that early stopping watches: its index in the plan, -1 for the loss.
int Trainer::stop_metric() const {
  const std::string& wanted = experiment_.evaluate.stop_metric;
  if (wanted == "loss") return -1;
  const auto& metrics = s_.plan_->metrics;
  std::vector<std::string> names{"loss"};
  int found = -1, hits = 0;
  for (size_t k = 0; k < metrics.size(); ++k) {
    const std::string& name = metrics[k].name;
    names.push_back(name);
    // With several models "accuracy" may stand for "student.accuracy", with one "model.accuracy"
    // for "accuracy".
    if (name != wanted && !ends_with(name, "." + wanted) && !ends_with(wanted, "." + name))
      continue;
    found = static_cast<int>(k);
    ++hits;
  }
  if (hits == 1) return found;
  fail_config("[evaluate] early_stop.metric '" + wanted + "' " +
              (hits ? "fits several metrics" : "is no metric of an evaluation") +
              did_you_mean(nearest(wanted, names)) + "; there are: " + join(names));
}

Evaluation Trainer::evaluation(const StepResult& r) {
  try {
    return s_.evaluate("eval", experiment_.evaluate.batches);
  } catch (const CollectiveError& e) {
    if (e.code() != PLAIT_ERR_CANCELLED) throw;
    stop(r);
  }
}

// Saves and reports a stop on request.
void Trainer::stop(const StepResult& r) {
  s_.cancelled_.store(false, std::memory_order_relaxed);  // the request is served
  save(r, false);
  status("interrupted", r);
  fail_collective(PLAIT_ERR_CANCELLED,
                  strf("[session] stopped on request after step %ld", static_cast<long>(r.step)) +
                      (checkpoint_.empty() ? "; nothing was saved: this session writes no files"
                                           : "; saved as " + checkpoint_));
}

bool Trainer::evaluate(const StepResult& r) {
  if (!s_.plan_->dataset("eval")) return false;
  evaluated_at_ = r.step;
  const Evaluation e = evaluation(r);
  std::vector<observe::NamedValue> values{{"loss", e.loss}};
  for (const auto& [name, v] : e.metrics) values.push_back({name, v});
  const double now = unix_seconds();
  if (s_.run_files_) {
    s_.run_files_->metrics().event("evaluate", r.step, now, values, "dataset", "eval");
    for (const auto& v : values)
      s_.run_files_->events().scalar("eval/" + std::string(v.name), r.step, now, v.value);
    s_.run_files_->events().flush();
  }
  std::string text =
      strf("[evaluate] step %ld: loss ", static_cast<long>(r.step)) + real_text(e.loss, "%.4f");
  for (const auto& [name, v] : e.metrics) text += ", " + name + " " + real_text(v, "%.4f");
  s_.log_.info(text + strf(" on %ld samples in %.2f s", static_cast<long>(e.samples), e.seconds));

  const auto& stop = experiment_.evaluate;
  if (stop.stop_metric.empty()) return false;
  const int watched = stop_metric();
  const double value = watched < 0 ? e.loss : e.metrics[static_cast<size_t>(watched)].second;
  const bool higher =
      watched >= 0 && s_.plan_->metrics[static_cast<size_t>(watched)].item->higher_is_better != 0;
  const double gain = higher ? value - s_.best_ : s_.best_ - value;
  const bool first = s_.evaluations_without_gain_ < 0 || !std::isfinite(s_.best_);
  if (std::isfinite(value) && (first || gain > stop.min_delta)) {
    s_.best_ = value;
    s_.evaluations_without_gain_ = 0;
    return false;
  }
  s_.evaluations_without_gain_ = std::max<int64_t>(s_.evaluations_without_gain_, 0);
  if (++s_.evaluations_without_gain_ <= stop.patience) return false;
  s_.log_.info(strf("[evaluate] stops early: %s has not improved on %g for %ld evaluations",
                    stop.stop_metric.c_str(), s_.best_,
                    static_cast<long>(s_.evaluations_without_gain_)));
  return true;
}

void Trainer::saved(const StepResult& r, const SavedCheckpoint& s) {
  checkpoint_ = s.path;
  if (!s_.run_files_) return;
  s_.run_files_->metrics().event("checkpoint", s.step, unix_seconds(), {}, "path", s.path);
  status("running", r);
}

// Waits until no checkpoint is being written.
void Trainer::drain_save(const StepResult& r) {
  s_.wait_for_save();
  if (const std::optional<SavedCheckpoint> s = s_.background_saver_.take()) saved(r, *s);
}

void Trainer::save(const StepResult& r, bool continues) {
  drain_save(r);
  if (!s_.keeps_files_ || saved_at_ == r.step) return;
  if (continues && experiment_.checkpoint.background)
    s_.save_in_background();
  else
    saved(r, {r.step, s_.save("")});
  saved_at_ = r.step;
}

// After an error of the run: waits for a checkpoint that is being written. If that fails as well,
// it may be the cause.
void Trainer::finish_save(const Error& e) {
  StepResult at;
  at.step = s_.step_;
  try {
    drain_save(at);
  } catch (const Error& own) {
    if (own.code() == PLAIT_ERR_PEER) return;
    if (e.code() == PLAIT_ERR_PEER) throw;
    s_.log_.error(own.full_text());
  }
}

// Whether an evaluation, a save or a callback after a step reads its parameters.
bool Trainer::pauses_behind(int64_t step) const {
  const auto at = [step](int64_t every) { return every > 0 && step % every == 0; };
  return at(experiment_.evaluate.every) || at(experiment_.checkpoint.every);
}

// On an asynchronous device the next step is launched before the results of this one arrive: it
// needs nothing else from the host.
void Trainer::launch_ahead() {
  if (!s_.looks_ahead_ || s_.drained_) return;
  s_.on_all_ranks("step", [&] {
    while (s_.launched_ < s_.plan_->total_steps && s_.in_flight() < 2 &&
           (s_.in_flight() == 0 || !pauses_behind(s_.launched_)))
      s_.launch_next();
  });
}

// Reports a step; returns whether the run stops after it.
bool Trainer::made(const StepResult& r) {
  log_step(r);
  if (s_.background_saver_.ended()) drain_save(r);
  if (s_.settings_.on_step && s_.settings_.on_step(r))
    s_.cancelled_.store(true, std::memory_order_relaxed);
  return s_.ranks_.is_single() ? s_.cancelled_.load(std::memory_order_relaxed) : s_.stop_agreed_;
}

StepResult Trainer::loop() {
  StepResult r;
  r.step = s_.step_;
  r.samples = s_.samples_;
  const int64_t total = s_.plan_->total_steps;
  if (total == 0)
    fail_config("[run] neither steps nor epochs is set, so the run has no end; set one of them");
  if (!experiment_.evaluate.stop_metric.empty())
    stop_metric();  // refuses a wrong name before the first step
  status("running", r);
  while (s_.step_ < total || s_.drained_) {
    launch_ahead();
    r = s_.step();
    // A single rank stops at once; several ranks stop after the step whose sums have told all of
    // them about the request. A step that was launched by then is made on all ranks.
    if (made(r)) {
      if (s_.in_flight() > 0 || s_.drained_) made(r = s_.step());
      stop(r);
    }
    const int64_t every = experiment_.evaluate.every;
    if (every > 0 && r.step % every == 0 && evaluate(r)) {
      r.finished = true;
      break;
    }
    if (experiment_.checkpoint.every > 0 && r.step % experiment_.checkpoint.every == 0)
      save(r, true);
  }
  if (evaluated_at_ != r.step) evaluate(r);
  experiment_.checkpoint.at_end ? save(r, false) : drain_save(r);
  // A run without a single finite step fails, even if it is shorter than nonfinite_limit.
  if (r.skipped && s_.updates_ == 0)
    s_.fail_numerics(
        r, "; the run is at its end" + (checkpoint_.empty() ? "" : ", saved as " + checkpoint_));
  if (r.skipped)
    s_.log_.warn(strf(
        "[session] the run ends with %ld steps that were skipped; the result is that of step %ld",
        static_cast<long>(s_.consecutive_skipped_),
        static_cast<long>(r.step - s_.consecutive_skipped_)));
  status("done", r);
  return r;
}

StepResult Trainer::loop_and_save() {
  try {
    return loop();
  } catch (const Error& e) {
    finish_save(e);
    throw;
  }
}

StepResult Trainer::run() {
  try {
    const StepResult r = loop_and_save();
    if (s_.run_files_) s_.run_files_->events().flush();
    progress_.finish();
    return r;
  } catch (const CollectiveError& e) {
    progress_.finish();
    if (e.code() != PLAIT_ERR_CANCELLED) ended("aborted", e.text());
    throw;
  } catch (const Error& e) {
    progress_.finish();
    ended("failed", e.text());
    throw;
  } catch (const std::exception& e) {
    ended("failed", e.what());
    throw;
  }
}

StepResult Session::run() {
  struct Running {
    Session& s;
    explicit Running(Session& session) : s(session) {
      s.running_ = true;
      s.looks_ahead_ = s.may_run_ahead();
    }
    ~Running() { s.running_ = s.looks_ahead_ = false; }
  } const running(*this);
  return Trainer(*this).run();
}

}  // namespace plait::session
