// plait run: trains an experiment to its end, as one rank or as the launcher of all ranks.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/interrupt.hpp"
#include "bindings/cli/launch/cores.hpp"
#include "bindings/cli/launch/local.hpp"
#include "bindings/cli/metrics.hpp"
#include "bindings/cli/ranks.hpp"

namespace plait::cli {
namespace {

constexpr int64_t kMostLocalRanks = 1024;  // more processes on one machine are a mistake

struct RunArguments {
  FileArguments file;
  std::string run_dir, resume;
  double grace = 60;
};

// While it exists, the log prints errors only.
class Hush {
 public:
  explicit Hush(Terminal& terminal) : terminal_(terminal) { terminal_.silent = true; }
  ~Hush() { terminal_.silent = false; }
  Hush(const Hush&) = delete;
  Hush& operator=(const Hush&) = delete;

 private:
  Terminal& terminal_;
};

class Run {
 public:
  Run(Context& context, const RunArguments& arguments)
      : context_(context), terminal_(context.terminal), arguments_(arguments) {}
  int run();

 private:
  void become_rank();
  int launch(int64_t ranks);
  int train(const Plan& plan);
  SessionSettings settings();
  void announce(const Json& plan, const Json& session);
  bool on_step(const plait_step_result& r);
  void report(Session& session, const plait_step_result& last);
  int interrupted(const Json& session, const HostError& e);
  double samples_per_second() const;

  using Clock = std::chrono::steady_clock;
  Context& context_;
  Terminal& terminal_;
  const RunArguments& arguments_;
  RankInfo own_;
  Json values_;  // every value of the experiment
  int64_t log_every_ = 1;
  Clock::time_point start_, last_step_;
  int64_t first_samples_ = -1, last_samples_ = 0;
};

uint32_t resume_mode(const std::string& word) {
  const std::map<std::string, uint32_t> modes = {{"", PLAIT_RESUME_CONFIG},
                                                 {"never", PLAIT_RESUME_NEVER},
                                                 {"auto", PLAIT_RESUME_AUTO},
                                                 {"must", PLAIT_RESUME_MUST}};
  return modes.at(word);
}

// As one of many ranks: only rank 0 prints, each rank has its own cores, and all report failures.
void Run::become_rank() {
  if (own_.alone()) return;
  terminal_.silent = own_.rank != 0;
  bind_local_rank(own_.local_rank, own_.local_size);
  keep_report_pipe();
  context_.on_failure = [rank = own_.rank](uint32_t code, const std::string& text) {
    report_failure({rank, code, monotonic_seconds(), text});
  };
}

int Run::launch(int64_t ranks) {
  if (ranks > kMostLocalRanks)
    throw CliError(kUsage,
                   strf("[cli] [topology] asks for %lld ranks; plait run starts %lld at most "
                        "on one machine: start them with torchrun, srun or mpirun on several",
                        static_cast<long long>(ranks), static_cast<long long>(kMostLocalRanks)));
  terminal_.note(strf("starting %lld ranks ", static_cast<long long>(ranks)) + cores_for(ranks));
  LocalJob job;
  job.ranks = static_cast<int>(ranks);
  job.command = context_.words;
  job.grace = arguments_.grace;
  job.relay = [this](std::string_view line) { terminal_.relay(line); };
  const JobOutcome outcome = run_local(job);
  if (outcome.text.empty()) return outcome.code;
  terminal_.error(outcome.text);
  terminal_.record({{"event", "error"},
                    {"kind", "launch"},
                    {"code", 0},
                    {"exit", outcome.code},
                    {"rank", outcome.rank < 0 ? Json() : Json(outcome.rank)},
                    {"message", outcome.text}});
  return outcome.code;
}

SessionSettings Run::settings() {
  SessionSettings s;
  s.run_dir = arguments_.run_dir;
  s.resume = resume_mode(arguments_.resume);
  s.progress = terminal_.progress();
  s.command = context_.command;
  s.on_step = [this](const plait_step_result& r) { return on_step(r); };
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
    terminal_.note(strf("%d ranks, launcher %s: ", own_.size, own_.source.c_str()) + own_.reason);
  terminal_.line(strf("%s: %lld parameters on %s (%lld threads), %lld steps of %lld samples",
                      plan.value("name", "").c_str(), plan.value("parameter_count", 0LL),
                      plan.value("device", "").c_str(), plan.value("threads", 0LL),
                      plan.value("steps", 0LL), plan.value("global_batch", 0LL)));
  terminal_.line("run directory " + session.value("run_dir", ""));
}

bool Run::on_step(const plait_step_result& r) {
  last_step_ = Clock::now();
  last_samples_ = r.samples;
  if (terminal_.json && (r.step % log_every_ == 0 || r.finished || r.skipped))
    terminal_.record({{"event", "step"},
                      {"step", r.step},
                      {"epoch", r.epoch},
                      {"samples", r.samples},
                      {"loss", json_number(r.loss)},
                      {"grad_norm", json_number(r.grad_norm)},
                      {"lr", json_number(r.learning_rate)},
                      {"seconds", r.seconds},
                      {"skipped", r.skipped != 0}});
  return false;
}

double Run::samples_per_second() const {
  const double seconds = std::chrono::duration<double>(last_step_ - start_).count();
  return seconds > 0 ? static_cast<double>(last_samples_ - first_samples_) / seconds : 0;
}

void Run::report(Session& session, const plait_step_result& last) {
  const Json facts = Json::parse(session.describe());
  const std::string run_dir = facts.value("run_dir", "");
  const Json evaluation = facts.value("last_evaluation", Json());
  const bool stepped = last_samples_ > first_samples_;
  terminal_.record({{"event", "done"},
                    {"run_dir", run_dir},
                    {"step", last.step},
                    {"loss", stepped ? json_number(last.loss) : Json()},
                    {"samples_per_s", samples_per_second()},
                    {"evaluation", evaluation}});
  const double seconds = std::chrono::duration<double>(last_step_ - start_).count();
  const auto step = static_cast<long long>(last.step);
  if (stepped) {
    terminal_.line(
        last.skipped
            ? strf("done after step %lld, which was skipped: values were not finite", step)
            : strf("done after step %lld: training loss %s", step, metric_text(last.loss).c_str()));
    terminal_.line(strf("%.0f samples/s, ", samples_per_second()) + seconds_text(seconds));
  } else {
    terminal_.line(
        strf("nothing to do: step %lld was the last; run.steps=N changes the length", step));
  }
  if (!evaluation.is_null()) show_metrics(terminal_, evaluation);
  if (terminal_.quiet) return;
  terminal_.line("files are in " + run_dir);
}

int Run::interrupted(const Json& session, const HostError& e) {
  if (terminal_.silent) return kInterrupted;
  const std::string run_dir = session.value("run_dir", "");
  std::string command = "plait run " + shell_quoted(arguments_.file.given);
  for (const std::string& one : arguments_.file.set) command += " --set " + shell_quoted(one);
  for (const std::string& one : arguments_.file.positional) command += " " + shell_quoted(one);
  for (const std::string& one : context_.plugins) command += " --plugins " + shell_quoted(one);
  if (!context_.data.empty()) command += " --data " + shell_quoted(context_.data);
  command += " --run-dir " + shell_quoted(run_dir) + " --resume must";
  terminal_.record(
      {{"event", "interrupted"}, {"run_dir", run_dir}, {"message", e.what()}, {"resume", command}});
  terminal_.notice(
      std::string(e.what()) +
      (own_.size == 1 || started_by_plait() ? "\nto resume: " : "\nto resume, on every rank: ") +
      command);
  return kInterrupted;
}

// The others would wait for this rank until their time-out, and then not know why.
void tell_other_ranks(const Job& job, const char* text) noexcept {
  try {
    job.fail(text);
  } catch (const std::exception&) {
    // Nobody is there to be told; this rank's own error is what counts.
  }
}

int Run::run() {
  signal(SIGPIPE, SIG_IGN);  // a closed pipe behind our output must not end the run
  const Job job = Job::from_environment();
  own_ = rank_info(Json::parse(job.describe()));
  become_rank();
  int64_t ranks = 1;
  bool meets = false;  // from here on the session tells the other ranks
  try {
    Engine engine = context_.open_engine();
    const Experiment experiment =
        Experiment::read(engine, arguments_.file.path(), arguments_.file.overrides());
    values_ = Json::parse(experiment.describe());
    if (const std::string endless = unbounded_reason(values_); !endless.empty())
      throw CliError(kUsage, "[cli] " + endless);
    if (const auto every = values_.find("run.log_every"); every != values_.end())
      log_every_ = std::max<int64_t>(1, every->value("value", 1));
    if (!own_.alone()) {
      const Plan plan(experiment, job);
      meets = true;
      return train(plan);
    }
    ranks = ranks_of(values_);
    if (ranks == 1) return train(Plan(experiment));
    // Errors in the plan of one rank are reported once, here, and not by every process. Rank 0
    // prints the warnings.
    const Hush hush(terminal_);
    Plan(experiment, Job(JobSettings{.size = static_cast<uint32_t>(ranks)}));
  } catch (const std::exception& e) {
    if (!meets) tell_other_ranks(job, e.what());
    throw;
  }
  return launch(ranks);
}

int Run::train(const Plan& plan) {
  Session session(plan, settings());
  const Json facts = Json::parse(session.describe());
  announce(Json::parse(plan.describe()), facts);
  first_samples_ = last_samples_ = facts.value("samples", int64_t{0});
  start_ = last_step_ = Clock::now();
  try {
    plait_step_result last;
    {
      const Interrupt interrupt(session.get(),
                                {.announce = !terminal_.silent, .debounce = !own_.alone()});
      last = session.run();
    }
    report(session, last);
    return kOk;
  } catch (const HostError& e) {
    if (e.code() == PLAIT_ERR_CANCELLED) return interrupted(facts, e);
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
      ->type_name("DIR");
  verb->add_option("--resume", arguments->resume,
                   "resume from the newest checkpoint: if there is one, never, or fail without one")
      ->check(CLI::IsMember({"auto", "never", "must"}));
  verb->add_option("--grace", arguments->grace,
                   "seconds that ranks have to save and exit after a signal; default 60")
      ->type_name("SECONDS")
      ->check(CLI::Range(0.0, 1e6));
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return Run(context, *arguments).run(); };
  });
}

}  // namespace plait::cli
