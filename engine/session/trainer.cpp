#include "engine/session/trainer.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/plan/layout.hpp"

namespace plait::session {
namespace {

constexpr double kStatusSeconds = 5;  // between two states of a run in status.json
constexpr char kStopKey[] = "early_stop.metric", kBestKey[] = "checkpoint.best";

}  // namespace

Trainer::Trainer(SessionParts& parts)
    : p_(parts),
      c_(parts.context),
      experiment_(c_.plan.experiment),
      first_step_(c_.state.step),
      first_samples_(c_.state.samples),
      saved_at_(c_.state.resumed_from.empty() ? -1 : c_.state.step),  // already saved
      first_seconds_(p_.steps.training_seconds()),
      checkpoint_(c_.state.resumed_from),
      updates_saved_(c_.state.updates_taken),
      // Without `every` no memory is planned for a copy.
      copies_(experiment_.checkpoint.background && experiment_.checkpoint.every > 0),
      stragglers_(c_.plan),
      slow_ops_(c_),
      progress_(progress_config()) {
  for (const config::ModelConfig& m : experiment_.models)
    clips_ = clips_ || (m.optimizer && m.optimizer->clip_grad_norm > 0);
  const std::string& best = experiment_.checkpoint.best;
  if (c_.keeps_files && c_.plan.dataset("eval") && best != config::kNoBest)
    best_metric_ = best.empty() ? experiment_.evaluate.stop_metric : best;
  if (c_.state.kept.metric != best_metric_) c_.state.kept = {};
  // Several groups of a plan may follow the same settings.
  std::set<std::string> names;
  for (size_t i = 0; i < c_.plan.groups.size(); ++i) {
    const std::string name = plan::title_of(c_.plan, c_.plan.groups[i]);
    if (names.insert(name).second) groups_.push_back({i, "lr." + name, "train/lr/" + name});
  }
  if (c_.plan.find_entry_point(plan::kStatistics)) statistics_.emplace(c_, p_.steps);
  if (groups_.size() < 2) groups_.clear();
  const auto metrics = p_.steps.metrics();
  for (size_t i = 0; i < metrics.size(); ++i) {
    std::string tag = std::string("train/") + metrics[i].name;
    const bool is_metric = i < c_.plan.train_metrics.size() && c_.plan.train_metrics[i].item;
    if (!is_metric) std::replace(tag.begin(), tag.end(), '.', '/');
    metric_tags_.push_back(std::move(tag));
  }
  const size_t most = groups_.size() + metric_tags_.size() + 3;  // BusyTimes
  more_.reserve(most);
  more_tags_.reserve(most);
}

observe::ProgressConfig Trainer::progress_config() const {
  observe::ProgressConfig c = observe::progress_config_for_stderr();
  c.enabled = c_.settings.progress && experiment_.run.progress;
  return c;
}

void Trainer::status(const char* state, const StepResult& r, const std::string& message) {
  since_status_.restart();
  if (!c_.run_files) return;
  const observe::RunStatus now{state, r.step, c_.plan.total_steps, loss_, message, checkpoint_};
  // First the log: the disk may hang in what follows.
  if (now.state != observe::kRunning && now.state != observe::kDone && !message.empty())
    c_.rank_log.error("[run] " + now.state + ": " + message);
  c_.run_files->status(now);
}

// Behind an error, which another one must not hide.
void Trainer::failed(const std::string& message) {
  StepResult at;
  at.step = c_.state.step;
  try {
    status("failed", at, message);
  } catch (const std::exception& e) {
    c_.log.error(e.what());
  }
}

void Trainer::log_step(const StepResult& r) {
  const double elapsed = watch_.seconds();
  stragglers_.add(p_.steps.results());
  if (const std::optional<BusyTimes> slow = stragglers_.slow()) slow_ops_.begin(*slow);
  const bool due = r.step % experiment_.run.log_every == 0 || r.finished;
  if (c_.rank_metrics) {
    c_.rank_metrics->add(p_.steps.own_times());
    if (due) c_.rank_metrics->write(r.step);
  }
  if (c_.run_files && (due || r.skipped)) write_metrics(r, elapsed);
  if (since_status_.seconds() >= kStatusSeconds) status(observe::kRunning, r);
  show_progress(r, elapsed);
}

void Trainer::warn(const std::string& text) {
  if (!text.empty()) c_.log.warn(text);
}

// A metric of the evaluation by name: its index in the plan, -1 for the loss.
int Trainer::metric_index(const std::string& wanted, const char* key) const {
  if (wanted == "loss") return -1;
  const auto& metrics = c_.plan.metrics;
  std::vector<std::string> names{"loss"};
  int found = -1, hits = 0;
  for (size_t k = 0; k < metrics.size(); ++k) {
    const std::string& name = metrics[k].name;
    names.push_back(name);
    if (name == wanted) return static_cast<int>(k);
    // With several models "accuracy" may stand for "student.accuracy", with one "model.accuracy"
    // for "accuracy".
    if (!ends_with(name, "." + wanted) && !ends_with(wanted, "." + name)) continue;
    found = static_cast<int>(k);
    ++hits;
  }
  if (hits == 1) return found;
  fail_config(std::string("[evaluate] ") + key + " '" + wanted + "' " +
              (hits ? "fits several metrics" : "is no metric of an evaluation") +
              did_you_mean(nearest(wanted, names)) + "; there are: " + join(names));
}

bool Trainer::is_higher_better(int metric) const {
  if (metric < 0) return false;
  const plait_metric_item* item = c_.plan.metrics[static_cast<size_t>(metric)].item;
  return item && item->higher_is_better != 0;
}

double Trainer::value_of(const Evaluation& e, int metric) const {
  return metric < 0 ? e.loss : e.metrics[static_cast<size_t>(metric)].second;
}

Evaluation Trainer::evaluation(const StepResult& r) {
  try {
    return keeps_parameters(
        [this] { return p_.evaluator.evaluate("eval", experiment_.evaluate.batches); });
  } catch (const CollectiveError& e) {
    if (e.code() != PLAIT_ERR_CANCELLED) throw;
    stop(r);
  }
}

// Saves and reports a stop before the end of the run.
void Trainer::stop(const StepResult& r, Stop why) {
  c_.cancelled.store(false, std::memory_order_relaxed);  // the request is served
  warn(slow_ops_.give_up());
  if (c_.rank_metrics) c_.rank_metrics->write(r.step);
  save(r, false);
  status("interrupted", r);
  const auto at = static_cast<long>(r.step), after = static_cast<long>(c_.settings.stop_after);
  fail_collective(
      PLAIT_ERR_CANCELLED,
      (why == Stop::kOnRequest
           ? strf("[session] stopped on request after step %ld", at)
           : strf("[session] stopped after step %ld, as stop_after = %ld asks", at, after)) +
          (checkpoint_.empty() ? "; nothing was saved: this session writes no files"
                               : "; saved as " + checkpoint_));
}

// Between two steps, before what may last longer.
void Trainer::pause() {
  p_.steps.pause();
  if (c_.run_files) c_.run_files->metrics().flush();
}

bool Trainer::evaluate(const StepResult& r) {
  if (!c_.plan.dataset("eval")) return false;
  evaluated_at_ = r.step;
  pause();
  const Evaluation e = evaluation(r);
  // Ranks learn at different steps that the save of the best one so far has failed.
  if (!best_metric_.empty()) drain_save(r);
  const bool best = is_best(e);
  report(r, e, best);
  const bool stops = stops_early(r, e);
  if (r.finished || stops) show_progress(r, watch_.seconds());  // the last line has this evaluation
  if (best) save_best(r, e);
  return stops;
}

// Saves first what a fault of the evaluation's data would lose. With best or early_stop the
// checkpoint keeps what the evaluation finds, and is written once, behind it.
void Trainer::evaluate_at_end(const StepResult& r) {
  if (evaluated_at_ == r.step || !c_.plan.dataset("eval")) return;
  if (experiment_.checkpoint.at_end && best_metric_.empty() &&
      experiment_.evaluate.stop_metric.empty())
    save(r, true);
  evaluate(r);
}

void Trainer::report(const StepResult& r, const Evaluation& e, bool best) {
  std::vector<observe::NamedValue> values{{"loss", e.loss}};
  if (e.perplexity > 0) values.push_back({"token_perplexity", e.perplexity});
  for (const auto& [name, v] : e.metrics)
    if (!std::isnan(v)) values.push_back({name, v});
  const double now = unix_seconds();
  if (c_.run_files) {
    c_.run_files->metrics().event("evaluate", r.step, now, values, "dataset", "eval");
    for (const auto& v : values) {
      std::string tag = "eval/" + std::string(v.name);
      if (starts_with(v.name, "loss.")) std::replace(tag.begin(), tag.end(), '.', '/');
      c_.run_files->scalar(tag, r.step, now, v.value);
    }
    c_.run_files->flush();
  }
  std::string text =
      strf("[evaluate] step %ld: loss ", static_cast<long>(r.step)) + real_text(e.loss, "%.4f");
  if (e.perplexity > 0) text += ", token_perplexity " + real_text(e.perplexity, "%.4f");
  for (const auto& [name, v] : e.metrics)
    if (!std::isnan(v)) text += ", " + name + " " + real_text(v, "%.4f");
  text += strf(" on %ld samples in ", static_cast<long>(e.samples)) + duration_text(e.seconds);
  if (best) text += ", the best " + best_metric_ + " so far";
  c_.log.info(text);
  if (!std::isfinite(e.loss) && !e.counts_nothing)
    c_.log.warn(strf("[evaluate] the loss of step %ld is ", static_cast<long>(r.step)) +
                real_text(e.loss, "%g") +
                ": fields of [data.eval] are not finite (plait data show), or the model's outputs "
                "are not");
}

bool Trainer::stops_early(const StepResult& r, const Evaluation& e) {
  const auto& stop = experiment_.evaluate;
  if (stop.stop_metric.empty()) return false;
  const int watched = metric_index(stop.stop_metric, kStopKey);
  const double value = value_of(e, watched);
  const double gain = is_higher_better(watched) ? value - c_.state.best : c_.state.best - value;
  const bool first = c_.state.evaluations_without_gain < 0 || !std::isfinite(c_.state.best);
  if (std::isfinite(value) && (first || gain > stop.min_delta)) {
    c_.state.best = value;
    c_.state.evaluations_without_gain = 0;
    return false;
  }
  if (first) c_.state.best = std::numeric_limits<double>::quiet_NaN();  // nothing to compare with
  c_.state.evaluations_without_gain = std::max<int64_t>(c_.state.evaluations_without_gain, 0);
  if (++c_.state.evaluations_without_gain < stop.patience) return false;
  if (r.step >= c_.plan.total_steps) return false;  // it is at its end
  const auto n = static_cast<long>(c_.state.evaluations_without_gain);
  const std::string count = strf(" for %ld evaluation%s", n, n == 1 ? "" : "s");
  ended_early_ = "stopped early: " + stop.stop_metric +
                 (first ? " was not finite" : strf(" has not improved on %g", c_.state.best)) +
                 count;
  c_.log.info("[evaluate] " + ended_early_);
  return true;
}

bool Trainer::is_best(const Evaluation& e) const {
  if (best_metric_.empty()) return false;
  const int watched = metric_index(best_metric_, kBestKey);
  const double value = value_of(e, watched), kept = c_.state.kept.value;
  if (!std::isfinite(value)) return false;
  return c_.state.kept.step < 0 || (is_higher_better(watched) ? value > kept : value < kept);
}

void Trainer::save_best(const StepResult& r, const Evaluation& e) {
  kept_before_ = c_.state.kept;
  c_.state.kept = {best_metric_, value_of(e, metric_index(best_metric_, kBestKey)), r.step};
  saved_at_ = -1;  // a checkpoint of this step that is there does not say so
  save(r, true);
}

void Trainer::saved(const StepResult& r, const SavedCheckpoint& s) {
  not_saved_.reset();
  checkpoint_ = s.path;
  if (!c_.run_files) return;
  c_.run_files->metrics().event("checkpoint", s.step, unix_seconds(), {}, "path", s.path);
  status(observe::kRunning, r);
}

// When the loop saves the next time.
std::string Trainer::next_save(int64_t step) const {
  const int64_t every = experiment_.checkpoint.every, total = c_.plan.total_steps;
  const int64_t next = every > 0 ? (step / every + 1) * every : 0;
  if (every > 0 && next <= total)
    return strf("the next save is that of step %ld", static_cast<long>(next));
  const bool at_end = experiment_.checkpoint.at_end;
  if (const double minutes = experiment_.checkpoint.minutes; minutes > 0)
    return strf("the next save is in %g minutes", minutes) +
           (at_end ? ", or at the end of the run" : "");
  return at_end ? "the next save is at the end of the run" : "no other save follows";
}

void Trainer::not_saved(const SavedCheckpoint& s, After after) {
  not_saved_ = s;
  if (saved_at_ == s.step) saved_at_ = updates_saved_ = -1;
  if (c_.state.kept.step == s.step) {
    kept_lost_ = c_.state.kept;
    c_.state.kept = kept_before_;
  }
  if (!c_.ranks.is_leader()) return;
  const std::string text = s.error->full_text();
  if (after == After::kSteps)
    c_.log.warn(text + "\nThe run continues without this checkpoint; " + next_save(s.step));
  else if (after == After::kEnd || (after == After::kSave && s.step < c_.state.step))
    c_.log.warn(text + strf("\nstep %ld has no checkpoint", static_cast<long>(s.step)));
  if (c_.run_files)
    c_.run_files->metrics().event("checkpoint_failed", s.step, unix_seconds(), {}, "error", text);
}

// Waits until no checkpoint is being written.
void Trainer::drain_save(const StepResult& r, After after) {
  p_.checkpoints.wait_for_save();
  if (const std::optional<SavedCheckpoint> s = p_.checkpoints.take_saved())
    s->error ? not_saved(*s, after) : saved(r, *s);
}

// Of the checkpoint, on all ranks.
uint64_t Trainer::bytes_to_save() {
  uint64_t bytes = 0;
  for (const std::string& of_rank :
       c_.ranks.all_gather(std::to_string(plan::checkpoint_bytes(c_.plan))))
    bytes += std::stoull(of_rank);
  return bytes;
}

// Tries again what has failed behind this step.
void Trainer::save_at_end(const StepResult& r) {
  try {
    if (kept_lost_.step == r.step) c_.state.kept = kept_lost_;
    saved(r, {r.step, p_.checkpoints.save(""), {}});
  } catch (const CollectiveError& e) {
    if (is_harmless(e.code())) c_.unsaved = {r.step, bytes_to_save()};
    throw;
  } catch (const Error& e) {  // of this rank alone
    if (is_harmless(e.code())) c_.unsaved = {r.step, plan::checkpoint_bytes(c_.plan)};
    throw;
  }
}

// A save between two steps (`continues`) may fail.
void Trainer::save(const StepResult& r, bool continues) {
  if (continues && saved_at_ == r.step) return;  // it may still be under way
  pause();
  drain_save(r, continues ? After::kSteps : After::kSave);
  if (!c_.keeps_files || saved_at_ == r.step) return;
  saved_at_ = r.step;
  updates_saved_ = c_.state.updates;
  since_save_.restart();
  if (!continues) return save_at_end(r);
  p_.checkpoints.save_between(copies_);
  if (!copies_) drain_save(r);
}

// After an error of the run, null for one of the host: waits for a checkpoint that is being
// written. If that fails as well, it may be the cause.
void Trainer::finish_save(const Error* e) {
  StepResult at;
  at.step = c_.state.step;
  try {
    drain_save(at, After::kEnd);
  } catch (const Error& own) {
    if (own.code() == PLAIT_ERR_PEER) return;
    if (e && e->code() == PLAIT_ERR_PEER) throw;
    c_.log.error(own.full_text());
  }
}

// Calls what reads samples. Those of a step are read before its first op, and a step whose figures
// are not finite is skipped: its errors leave the parameters whole. Of several ranks all have to
// come to the error; where one alone cannot read its samples, the others are within the step.
template <class Call>
auto Trainer::keeps_parameters(Call&& call) -> decltype(call()) {
  parameters_whole_ = false;
  try {
    return call();
  } catch (const CollectiveError& e) {
    parameters_whole_ = e.code() == PLAIT_ERR_DATA || e.code() == PLAIT_ERR_NUMERIC;
    throw;
  } catch (const Error& e) {
    const bool of_samples =
        e.code() == PLAIT_ERR_DATA || e.code() == PLAIT_ERR_IO || e.code() == PLAIT_ERR_NOT_FOUND;
    parameters_whole_ = of_samples && c_.ranks.is_single();
    if (!of_samples || parameters_whole_ || !c_.keeps_files || c_.state.updates == updates_saved_)
      throw;
    throw Error(e.code(),
                e.text() +
                    "; the updates behind the last checkpoint are lost, for other ranks were "
                    "within the same call: checkpoint.every or checkpoint.minutes saves in between",
                e.cause());
  }
}

// A step may have been launched behind the one with the error, and fail alike on all ranks.
void Trainer::drain_behind_error() {
  try {
    p_.steps.drain();
  } catch (const CollectiveError& e) {
    if (e.code() != PLAIT_ERR_DATA && e.code() != PLAIT_ERR_NUMERIC) throw;
    p_.steps.discard();
  }
}

// Saves what was trained before an error that left it whole. Returns the end of the error's text,
// "" where nothing was trained or kept.
std::string Trainer::save_behind_error() {
  if (!parameters_whole_ || !c_.keeps_files) return "";
  try {
    drain_behind_error();
    StepResult at;
    at.step = c_.state.step;
    drain_save(at, After::kEnd);
    if (c_.state.updates != updates_saved_) save(at, false);
  } catch (const Error& e) {
    c_.log.error(e.full_text());
    c_.unsaved = {};  // for the host the error of the run counts
    return "";
  }
  return checkpoint_.empty() ? "" : "; what was trained until then is saved as " + checkpoint_;
}

// Whether an evaluation, a save or a callback after a step reads its parameters.
bool Trainer::pauses_behind(int64_t step) const {
  const auto at = [step](int64_t every) { return every > 0 && step % every == 0; };
  return step == c_.settings.stop_after || at(experiment_.evaluate.every) ||
         at(experiment_.checkpoint.every) || (statistics_ && at(experiment_.statistics.every));
}

// By this rank's clock.
bool Trainer::is_time_to_save() const {
  const double minutes = experiment_.checkpoint.minutes;
  return minutes > 0 && c_.keeps_files && since_save_.seconds() >= 60 * minutes;
}

// All ranks measure the same steps.
StepResult Trainer::step() {
  return keeps_parameters([this] {
    if (!slow_ops_.is_measuring()) return p_.steps.step();
    return slow_ops_.measure([this] { return p_.steps.step(); });
  });
}

// Reports a step; returns whether the run stops after it.
bool Trainer::made(const StepResult& r) {
  loss_ = r.loss;
  if (slow_ops_.is_complete())
    warn(c_.abort_on_error("stragglers", [this] { return slow_ops_.report(); }));
  log_step(r);
  if (statistics_ && r.step % experiment_.statistics.every == 0) {
    pause();
    statistics_->record(r);
  }
  if (p_.checkpoints.background_save_ended()) drain_save(r);
  const bool asked = c_.settings.on_step && c_.settings.on_step(r);
  if (c_.ranks.is_single()) return asked || c_.cancelled.load(std::memory_order_relaxed);
  if (asked) c_.cancelled.store(true, std::memory_order_relaxed);
  return r.stop_agreed;
}

StepResult Trainer::loop() {
  StepResult r;
  r.step = c_.state.step;
  r.samples = c_.state.samples;
  const int64_t total = c_.plan.total_steps;
  if (total == 0)
    fail_config("[run] neither steps nor epochs is set, so the run has no end; set one of them");
  // Refuses wrong names before the first step.
  if (const std::string& name = experiment_.evaluate.stop_metric; !name.empty())
    metric_index(name, kStopKey);
  if (!best_metric_.empty()) metric_index(best_metric_, kBestKey);
  if (copies_ && c_.keeps_files) p_.checkpoints.reserve_copy();
  if (c_.ranks.is_leader()) p_.steps.warn_of_schedules();
  status(observe::kRunning, r);
  if (c_.rank_metrics) c_.rank_metrics->begin();
  c_.normalizer.ensure();  // so that the first step does not count it
  const int64_t stop_after = c_.settings.stop_after,
                end = stop_after > 0 ? std::min(total, stop_after) : total;
  while (c_.state.step < end || p_.steps.has_drained()) {
    p_.steps.want_save(is_time_to_save());
    keeps_parameters(
        [this] { p_.steps.launch_ahead([this](int64_t step) { return pauses_behind(step); }); });
    r = step();
    // A single rank stops at once; several ranks stop after the step whose sums have told all of
    // them about the request. A step that was launched by then is made on all ranks.
    bool stops = made(r);
    const bool saves = r.save_agreed;
    if ((stops || saves) && p_.steps.has_unreported()) stops = made(r = step()) || stops;
    // On a single rank an evaluation that is due comes before a stop that the callback asks for;
    // any other request cancels it. Several ranks do not know who asked.
    const int64_t every = experiment_.evaluate.every;
    const bool evaluates = every > 0 && r.step % every == 0;
    if (stops && evaluates && c_.ranks.is_single() && !c_.cancelled.load(std::memory_order_relaxed))
      evaluate(r);
    if (stops) stop(r);
    if (evaluates && evaluate(r)) {
      r.finished = true;
      break;
    }
    const int64_t steps = experiment_.checkpoint.every;
    if (saves || (steps > 0 && r.step % steps == 0)) save(r, true);
  }
  if (r.step < total && !r.finished) stop(r, Stop::kAfter);
  warn(slow_ops_.give_up());
  evaluate_at_end(r);
  experiment_.checkpoint.at_end ? save(r, false) : drain_save(r, After::kThrow);
  if (not_saved_) {
    // For the host, which then knows that the run came to its end all the same.
    c_.unsaved = {r.step, bytes_to_save()};
    fail_saving(*not_saved_);
  }
  if (!best_metric_.empty() && c_.state.kept.step >= 0 && c_.run_files)
    c_.log.info(
        "[checkpoint] the best " + best_metric_ +
        strf(" is %g of step %ld: ", c_.state.kept.value, static_cast<long>(c_.state.kept.step)) +
        c_.run_files->dir().checkpoint_folder() + "/" + checkpoint::kBest);
  // A run without a single finite step fails, even if it is shorter than nonfinite_limit.
  if (r.skipped && c_.state.updates == c_.state.updates_before)
    p_.steps.fail_numerics(
        r, "; the run is at its end" + (checkpoint_.empty() ? "" : ", saved as " + checkpoint_));
  if (r.skipped)
    c_.log.warn(strf(
        "[session] the run ends with %ld steps that were skipped; the result is that of step %ld",
        static_cast<long>(c_.state.consecutive_skipped),
        static_cast<long>(r.step - c_.state.consecutive_skipped)));
  status(observe::kDone, r, ended_early_);
  return r;
}

StepResult Trainer::loop_and_save() {
  try {
    return loop();
  } catch (const CollectiveError& e) {
    const std::string saved = save_behind_error();
    finish_save(&e);
    if (saved.empty()) throw;
    throw CollectiveError(e.code(), e.text() + saved, e.cause());
  } catch (const Error& e) {
    const std::string saved = save_behind_error();
    finish_save(&e);
    if (saved.empty()) throw;
    throw Error(e.code(), e.text() + saved, e.cause());
  } catch (const std::exception&) {
    finish_save(nullptr);
    throw;
  }
}

StepResult Trainer::run_and_report() {
  try {
    const StepResult r = loop_and_save();
    if (c_.run_files) c_.run_files->flush();
    progress_.finish();
    return r;
  } catch (const CollectiveError& e) {
    progress_.finish();
    if (e.code() != PLAIT_ERR_CANCELLED) failed(e.full_text());
    throw;
  } catch (const Error& e) {
    progress_.finish();
    failed(e.full_text());
    throw;
  } catch (const std::exception& e) {
    failed(e.what());
    throw;
  }
}

StepResult Trainer::run() {
  struct Running {
    SessionParts& parts;
    explicit Running(SessionParts& p) : parts(p) {
      parts.context.running = true;
      parts.context.unsaved = {};
      parts.steps.follow(true);
    }
    ~Running() {
      parts.context.running = false;
      parts.steps.follow(false);
      // A request that came too late to stop this run must not stop the next one.
      parts.context.cancelled.store(false, std::memory_order_relaxed);
    }
  } const running(p_);
  return run_and_report();
}

}  // namespace plait::session
