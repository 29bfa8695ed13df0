// plait run: trains an experiment to its end, as one rank or as the launcher of all ranks.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bindings/cli/context.hpp"
#include "bindings/cli/interrupt.hpp"
#include "bindings/cli/launch/on_ranks.hpp"
#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/launch/workers.hpp"
#include "bindings/cli/plan_text.hpp"
#include "bindings/cli/ranks.hpp"
#include "bindings/cli/runs/event_reader.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "bindings/cli/runs/run_summary.hpp"
#include "bindings/cli/terminal/waiting.hpp"

namespace plait::cli {
namespace {

struct RunArguments {
  FileArguments file;
  std::string run_dir, resume;
  double grace = 60;
  int64_t ranks = 0;
  int64_t until = 0;  // 0: to the end
  int64_t restarts = 0;
};

class Run {
 public:
  Run(Context& context, const RunArguments& arguments)
      : context_(context), terminal_(context.terminal), arguments_(arguments) {}
  int run();

 private:
  int train(const Plan& plan);
  SessionSettings settings();
  Session open(const Plan& plan);
  void announce(const Json& plan, const Json& session);
  void warn_of_memory();
  void tell_more(double opened);  // seconds
  void on_step(const plait_step_result& r);
  void pass_events_on();
  void report(const Json& session, const plait_step_result& last, bool saved);
  std::string resume_command(const std::string& run_dir, const char* mode = "must") const;
  std::string way_on(const std::string& run_dir, double bytes) const;
  int end_unsaved(const std::shared_ptr<Session>& session, const Json& facts, const HostError& e);
  int interrupted(const Json& session, const HostError& e);
  Json rates(const plait_step_result& last, double seconds) const;

  using Clock = std::chrono::steady_clock;
  Context& context_;
  Terminal& terminal_;
  const RunArguments& arguments_;
  RankInfo own_;
  Json values_, plan_;  // every value of the experiment; the plan's description
  int64_t log_every_ = 1;
  Clock::time_point start_, last_step_;
  int64_t first_samples_ = -1, last_samples_ = 0;
  int64_t stopped_at_ = 0;             // by --until
  plait_step_result newest_{};         // without its metrics
  std::optional<EventReader> events_;  // with --json
};

uint32_t resume_mode(const std::string& word) {
  const std::map<std::string, uint32_t> modes = {{"", PLAIT_RESUME_CONFIG},
                                                 {"never", PLAIT_RESUME_NEVER},
                                                 {"auto", PLAIT_RESUME_AUTO},
                                                 {"must", PLAIT_RESUME_MUST}};
  return modes.at(word);
}

Session Run::open(const Plan& plan) {
  try {
    return context_.open_session(plan, settings());
  } catch (const HostError& e) {
    // The same code says that a run is in use, which is no mistake of the command line's.
    if (e.code() == PLAIT_ERR_STATE &&
        std::string_view(e.what()).find("neither empty nor a run directory") != std::string::npos)
      context_.failed = kUsage;
    throw;
  }
}

SessionSettings Run::settings() {
  SessionSettings s;
  s.run_dir = arguments_.run_dir;
  s.resume = resume_mode(arguments_.resume);
  s.progress = terminal_.progress();
  s.command = context_.command;
  s.stop_after = arguments_.until;
  s.on_step = [this](const plait_step_result& r) {
    on_step(r);
    return false;
  };
  return s;
}

void Run::announce(const Json& plan, const Json& session) {
  terminal_.record({{"event", "start"},
                    {"schema", 1},
                    {"run_dir", session.value("run_dir", "")},
                    {"step", session.value("step", 0LL)},
                    {"steps", plan.value("steps", 0LL)},
                    {"parameter_count", plan.value("parameter_count", 0LL)},
                    {"device", plan.value("device", "")},
                    {"ranks", own_.size},
                    {"launcher", own_.source}});
  if (terminal_.quiet) return;
  if (!own_.alone() && !started_by_plait())
    terminal_.note(counted(own_.size, "rank") + ", launcher " + own_.source + ": " + own_.reason);
  terminal_.paragraph(
      plan.value("name", "") + ": " + counted(plan.value("parameter_count", 0LL), "parameter") +
      " on " + plan.value("device", "") + " (" + counted(plan.value("threads", 0LL), "thread") +
      "), " + counted(plan.value("steps", 0LL), "step") + " of " +
      counted(plan.value("global_batch", 0LL), "sample"));
  terminal_.paragraph("run directory " + session.value("run_dir", ""));
}

// Evaluations and checkpoints, which the engine does not tell a host during a run.
void Run::pass_events_on() {
  if (!events_ || terminal_.silent) return;
  for (const Json& event : events_->next()) terminal_.record(event);
}

void Run::on_step(const plait_step_result& r) {
  last_step_ = Clock::now();
  last_samples_ = r.samples;
  newest_ = r;
  newest_.metrics = nullptr;
  newest_.n_metrics = 0;
  if (arguments_.until > 0 && r.step >= arguments_.until && !r.finished) stopped_at_ = r.step;
  if (!terminal_.json || (r.step % log_every_ != 0 && !r.finished && !r.skipped)) return;
  pass_events_on();
  Json record = {{"event", "step"},
                 {"step", r.step},
                 {"epoch", r.epoch},
                 {"samples", r.samples},
                 {"loss", json_number(r.loss)},
                 {"mean_loss", json_number(r.mean_loss)},
                 {"grad_norm", json_number(r.grad_norm)},
                 {"lr", json_number(r.learning_rate)},
                 {"step_ms", r.seconds * 1e3},  // as in metrics.ndjson
                 {"samples_per_s", r.samples_per_s},
                 {"skipped", r.skipped != 0}};
  if (r.tokens > 0) record.update({{"tokens", r.tokens}, {"tokens_per_s", r.tokens_per_s}});
  if (r.tflops > 0) record["tflops"] = r.tflops;
  if (r.mfu > 0) record["mfu"] = r.mfu;
  for (uint32_t i = 0; i < r.n_metrics; ++i)
    if (const plait_metric_value& m = r.metrics[i]; !std::isnan(m.value))
      record["metrics"][m.name] = json_number(m.value);
  terminal_.record(record);
}

// Over the steps of this process, in the seconds that they took: without evaluations and saves.
Json Run::rates(const plait_step_result& last, double seconds) const {
  const double samples = static_cast<double>(last_samples_ - first_samples_),
               rate = seconds > 0 ? samples / seconds : 0;
  Json all = {{"samples_per_s", rate}};
  if (const auto tokens = plan_.value("tokens_per_sample", 0.0); tokens > 0)
    all["tokens_per_s"] = rate * tokens;
  const Json flops = plan_.value("model_flops", Json::object());
  const double tflops = rate * flops.value("per_sample", 0.0) * 1e-12;
  if (tflops > 0) all["tflops"] = tflops;
  // The peak is known by what the engine made of it.
  if (tflops > 0 && last.tflops > 0 && last.mfu > 0) all["mfu"] = last.mfu * tflops / last.tflops;
  return all;
}

// seconds: since the start; trained: of them in steps, which the rates count.
std::string times_text(double seconds, double trained) {
  const std::string text = seconds_text(seconds);
  return trained > 0.95 * seconds ? text : text + ", " + seconds_text(trained) + " of it in steps";
}

std::string rates_text(const Json& rates) {
  std::string text = rate_number(rates.value("samples_per_s", 0.0)) + " samples/s, ";
  if (rates.contains("tokens_per_s"))
    text += rate_number(rates.value("tokens_per_s", 0.0)) + " tokens/s, ";
  if (rates.contains("tflops")) text += scaled(rates.value("tflops", 0.0) * 1e12, "FLOP/s, ");
  if (rates.contains("mfu")) text += strf("mfu %.1f %%, ", 100 * rates.value("mfu", 0.0));
  return text;
}

void Run::report(const Json& facts, const plait_step_result& last, bool saved) {
  const std::string run_dir = facts.value("run_dir", "");
  const Json evaluation = facts.value("last_evaluation", Json());
  const bool stepped = last_samples_ > first_samples_;
  const double trained = facts.value("training_seconds", 0.0);
  const Json rates = this->rates(last, trained);
  Json done = {{"event", saved ? "done" : "unsaved"},
               {"run_dir", run_dir},
               {"step", last.step},
               {"loss", stepped ? json_number(last.loss) : Json()}};
  done.update(rates);
  if (last.tokens > 0) done["tokens"] = last.tokens;
  if (last.skipped_steps > 0) done["skipped_steps"] = last.skipped_steps;
  const auto steps = plan_.value("steps", 0LL);
  // Without its checkpoint the end does not tell whether it was one on request.
  const bool early = saved && static_cast<long long>(last.step) < steps;
  if (stepped && early) done["stopped_early"] = true;
  done["evaluation"] = evaluation;
  pass_events_on();
  terminal_.record(done);
  const double seconds = std::chrono::duration<double>(last_step_ - start_).count();
  const auto step = static_cast<long long>(last.step);
  if (stepped) {
    terminal_.paragraph(strf(saved ? "done after step %lld" : "ended after step %lld", step) +
                        (last.skipped ? ", which was skipped: values were not finite"
                                      : ": training loss " + metric_text(last.loss)));
    const auto skipped = static_cast<long long>(last.skipped_steps);
    if (early)
      terminal_.paragraph(strf("stopped early, after %lld of ", step) + counted(steps, "step") +
                          ": evaluate.early_stop");
    if (skipped > 0)
      terminal_.paragraph(strf("%lld of ", skipped) + counted(step, "step") +
                          (skipped == 1 ? " was" : " were") + " skipped: values were not finite");
    terminal_.paragraph(rates_text(rates) + times_text(seconds, trained));
  } else {
    terminal_.paragraph(
        (steps > 0 && steps < step
             ? strf("nothing to do: step %lld is past the last one, %lld", step, steps)
             : strf("nothing to do: step %lld was the last", step)) +
        "; run.steps=N changes the length");
  }
  if (!evaluation.is_null()) show_metrics(terminal_, evaluation);
  if (terminal_.quiet) return;
  if (stepped && terminal_.human() && !terminal_.silent) show_summary(terminal_, run_dir);
  terminal_.paragraph("files are in " + run_dir);
}

// On another command line, or another day.
std::string Run::resume_command(const std::string& run_dir, const char* mode) const {
  // What came from a pipe is in the run directory, with its overrides.
  const bool piped = arguments_.file.is_copy() || arguments_.file.given.starts_with("/dev/fd/");
  FileArguments file = arguments_.file;
  if (piped) {
    file = {};
    file.given = run_dir;
  }
  return "plait run" + context_.arguments_text(file) + " --run-dir " + path_word(run_dir) +
         " --resume " + mode;
}

// Where the newest checkpoint leaves off, and what must be free before the run can go on from it.
std::string Run::way_on(const std::string& run_dir, double bytes) const {
  std::error_code unknown;
  const auto space = std::filesystem::space(run_dir, unknown);
  const double lacks = unknown ? 0 : bytes - static_cast<double>(space.available);
  const std::string first =
      lacks > 0
          ? "free " + bytes_text(lacks) + " or more on the file system of '" + run_dir + "', then "
          : "when '" + run_dir + "' can be written again, ";
  const std::string checkpoint = read_run(run_dir).checkpoint;
  const std::string name = checkpoint.substr(checkpoint.rfind('/') + 1);
  return first + (name.empty() ? "start again: " : "resume from " + name + ": ") +
         resume_command(run_dir, name.empty() ? "auto" : "must");
}

// True once all ranks are here, or false where one has died meanwhile.
bool met(Session& session) {
  try {
    session.any_rank(false);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// The steps were made, so their figures are shown; the error of the checkpoint ends the command.
// All ranks come here, mostly with the same error, and rank 0 tells it. mpirun ends all ranks once
// one has ended, so none ends before that; `plait run` waits for the words of rank 0 itself.
int Run::end_unsaved(const std::shared_ptr<Session>& session, const Json& facts,
                     const HostError& e) {
  const auto report_own = context_.on_failure;
  if (started_by_plait()) {
    context_.on_failure = [rank = own_.rank](uint32_t code, const std::string& text) {
      report_failure({rank, code, monotonic_seconds(), text, true, true});
    };
  } else if (own_.rank == 0 && !own_.alone()) {
    context_.on_failure = [session, report_own](uint32_t code, const std::string& text) {
      report_own(code, text);
      met(*session);
    };
  } else if (own_.rank != 0 && met(*session)) {
    report_own(e.code(), e.what());
    return exit_code(e.code());
  }
  const std::string run_dir = facts.value("run_dir", "");
  if (run_dir.empty() || terminal_.silent) throw e;
  report(facts, newest_, false);
  const auto bytes = facts.value("unsaved", Json::object()).value("bytes", 0.0);
  throw HostError(e.code(), std::string(e.what()) + "\n" + way_on(run_dir, bytes));
}

int Run::interrupted(const Json& session, const HostError& e) {
  if (terminal_.silent) return stopped_at_ > 0 ? kOk : kInterrupted;
  const std::string run_dir = session.value("run_dir", "");
  const std::string command = resume_command(run_dir);
  pass_events_on();
  terminal_.record({{"event", stopped_at_ > 0 ? "stopped" : "interrupted"},
                    {"run_dir", run_dir},
                    {"message", e.what()},
                    {"resume", command}});
  if (stopped_at_ > 0) {
    terminal_.line(
        strf("stopped after step %lld; to resume: ", static_cast<long long>(stopped_at_)) +
        command);
    return kOk;
  }
  terminal_.notice(
      std::string(e.what()) +
      (own_.size == 1 || started_by_plait() ? "\nto resume: " : "\nto resume, on every rank: ") +
      command);
  return kInterrupted;
}

int Run::run() {
  context_.command_of_file = "plait run" + context_.arguments_text(arguments_.file);
  RankedCommand command;
  command.grace = arguments_.grace;
  command.ranks = arguments_.ranks;
  command.restarts = arguments_.restarts;
  command.inspect = [this](const Experiment& experiment) {
    values_ = Json::parse(experiment.describe());
    if (const std::string endless = unbounded_reason(values_); !endless.empty())
      throw CliError(kUsage, "[cli] " + endless);
    if (const auto every = values_.find("run.log_every"); every != values_.end())
      log_every_ = std::max<int64_t>(1, every->value("value", 1));
  };
  command.work = [this](const Plan& plan, const RankInfo& own) {
    own_ = own;
    return train(plan);
  };
  return on_ranks(context_, arguments_.file, command);
}

// With -v: what the plan decided, and how long it took to get here.
void Run::tell_more(double opened) {
  if (terminal_.verbose == 0 || terminal_.quiet || terminal_.json) return;
  const Json memory = plan_.value("memory", Json::object());
  terminal_.paragraph(strf("batch: %lld samples = micro-batch %lld x accumulation %lld x data %lld",
                           plan_.value("global_batch", 0LL), plan_.value("micro_batch", 0LL),
                           plan_.value("accumulation", 1LL),
                           plan_.value("topology", Json::object()).value("data", 1LL)));
  terminal_.paragraph("memory of this rank " + bytes_text(memory.value("total", 0.0)) + ", " +
                      bytes_text(memory.value("transient", 0.0)) + " of it transient");
  for (const std::string& line : shared_memory_lines(plan_)) terminal_.paragraph(line);
  for (const Json& program : plan_.value("programs", Json::array()))
    terminal_.paragraph("program " + program.value("name", "") +
                        strf(": %zu kernels", program.value("kernels", Json::array()).size()));
  terminal_.paragraph("opened in " + seconds_text(opened) +
                      ": memory, initial values, data, connections");
}

// Memory that a process asked for is given to it when it is used: too much of it ends the process
// in the middle of a step, without a word.
void Run::warn_of_memory() {
  if (own_.local_rank != 0) return;
  const std::string needed = memory_of_ranks(plan_, own_.local_size);
  if (!needed.empty())
    terminal_.log(PLAIT_LOG_WARN,
                  "[run] " + needed +
                      "; the system may kill the run when it uses them: see plait plan, lower "
                      "batch.micro, or shard more (topology.zero, topology.tensor)");
}

int Run::train(const Plan& plan) {
  const Clock::time_point before = Clock::now();
  plan_ = Json::parse(plan.describe());
  warn_of_memory();
  Waiting waiting(terminal_, "opening: memory, initial values, weights, data",
                  values_.at("run.progress").value("value", true));
  const auto session = std::make_shared<Session>(open(plan));
  waiting.end();
  const double opened = std::chrono::duration<double>(Clock::now() - before).count();
  report_connected();
  const Json facts = Json::parse(session->describe());
  if (own_.rank == 0) report_run_dir(facts.value("run_dir", ""));
  announce(plan_, facts);
  tell_more(opened);
  if (const std::string dir = facts.value("run_dir", ""); terminal_.json && !dir.empty())
    events_.emplace(dir);
  if (const auto step = facts.value("step", int64_t{0});
      arguments_.until > 0 && step >= arguments_.until) {
    terminal_.record({{"event", "stopped"}, {"run_dir", facts.value("run_dir", "")}});
    terminal_.paragraph(
        strf("nothing to do: step %lld is behind --until", static_cast<long long>(step)));
    return kOk;
  }
  first_samples_ = last_samples_ = facts.value("samples", int64_t{0});
  start_ = last_step_ = Clock::now();
  try {
    plait_step_result last;
    {
      const Interrupt interrupt(
          session->get(),
          {.announce = !terminal_.silent, .debounce = !own_.alone() || !isatty(STDIN_FILENO)});
      last = session->run();
    }
    report(Json::parse(session->describe()), last, true);
    return kOk;
  } catch (const HostError& e) {
    if (e.code() == PLAIT_ERR_CANCELLED) return interrupted(facts, e);
    const Json now = Json::parse(session->describe());
    if (last_samples_ > first_samples_ && now.value("unsaved", Json()).is_object())
      return end_unsaved(session, now, e);
    throw;
  }
}

}  // namespace

void add_run(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("run", "trains the experiment FILE, with overrides key=value...");
  const auto arguments = std::make_shared<RunArguments>();
  add_file(*verb, arguments->file);
  verb->add_option("--run-dir", arguments->run_dir,
                   "folder for this run's files; default: a new folder below run.out")
      ->type_name("DIR")
      ->check([](const std::string& folder) {
        return folder.empty()
                   ? std::string("names no folder; leave it out for a new one in run.out")
                   : std::string();
      });
  verb->add_option("--resume", arguments->resume,
                   "resume from the newest checkpoint: if there is one, never, or fail without one")
      ->check(CLI::IsMember({"auto", "never", "must"}));
  verb->add_option("--until", arguments->until,
                   "stops after this step, with a checkpoint to resume from")
      ->type_name("STEP")
      ->check(whole_number(1));
  add_ranks(*verb, arguments->ranks);
  verb->add_option("--grace", arguments->grace,
                   "seconds that ranks have to save and exit after a signal; default 60")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6));
  verb->add_option("--max-restarts", arguments->restarts,
                   "starts a run again that dies by a signal or a passing fault (a rank lost, a "
                   "file, memory, a device) so many times at most, from its newest checkpoint")
      ->type_name("N")
      ->check(CLI::Range(0, 1000000));
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return Run(context, *arguments).run(); };
  });
}

}  // namespace plait::cli
