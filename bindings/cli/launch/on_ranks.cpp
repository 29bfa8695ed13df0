#include "bindings/cli/launch/on_ranks.hpp"

#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bindings/cli/interrupt.hpp"
#include "bindings/cli/launch/cores.hpp"
#include "bindings/cli/launch/local.hpp"
#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/launch/restarts.hpp"
#include "bindings/cli/one_rank.hpp"
#include "bindings/cli/terminal/waiting.hpp"

namespace plait::cli {
namespace {

constexpr char kPlanning[] = "reading and planning", kTelling[] = "telling the other ranks";
constexpr int64_t kMostLocalRanks = 1024;  // more processes on one machine are a mistake

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

// As one of many ranks: only rank 0 prints, each rank has its own cores, and all report failures.
void become_rank(Context& context, const RankInfo& own) {
  if (own.alone()) return;
  context.terminal.silent = own.rank != 0;
  if (!started_by_plait()) context.terminal.without_color();  // mpirun gives its ranks terminals
  bind_local_rank(own.local_rank, own.local_size);
  context.listed_elsewhere = own.local_rank > 0 && !started_by_plait();
  keep_report_pipe();
  context.on_failure = [rank = own.rank](uint32_t code, const std::string& text) {
    report_failure({rank, code, monotonic_seconds(), text});
  };
}

// As the rank would print it: the lines of ranks other than 0 tell whose they are.
void print_failure(Terminal& terminal, const FailureReport& failure) {
  if (failure.rank == 0) return terminal.error(failure.text);
  const std::string rank = strf("[rank %d] ", failure.rank);
  std::istringstream lines(failure.text);
  std::string start = "error: ";
  for (std::string line; std::getline(lines, line); start = "  ")
    terminal.relay(rank + start + line);
}

// A batch script of Slurm runs on the first node of its job, and so do ranks that it starts itself.
void warn_of_other_nodes(Terminal& terminal) {
  const char* const nodes = std::getenv("SLURM_JOB_NUM_NODES");
  if (nodes && std::atoi(nodes) > 1)
    terminal.log(PLAIT_LOG_WARN,
                 strf("[launch] this Slurm job has %d nodes, but the ranks all start on this one; "
                      "to use the others write srun before plait run, with a task for each rank, "
                      "or use plait submit",
                      std::atoi(nodes)));
}

int launch(Context& context, const FileArguments& file, int64_t ranks,
           const RankedCommand& command) {
  Terminal& terminal = context.terminal;
  warn_of_other_nodes(terminal);
  if (ranks > kMostLocalRanks)
    throw CliError(kUsage,
                   strf("[cli] [topology] asks for %lld ranks; plait starts %lld at most "
                        "on one machine: start them with torchrun, srun or mpirun on several",
                        static_cast<long long>(ranks), static_cast<long long>(kMostLocalRanks)) +
                       command.other_way);
  terminal.note(
      strf("starting %lld rank%s ", static_cast<long long>(ranks), ranks == 1 ? "" : "s") +
      cores_for(ranks));
  LocalJob job;
  job.ranks = static_cast<int>(ranks);
  job.command = context.words;
  // The ranks read what was copied from a pipe: the last word of that name, for options precede it.
  if (const auto word = std::find(job.command.rbegin(), job.command.rend(), file.given);
      file.is_copy() && word != job.command.rend())
    *word = file.path();
  job.grace = command.grace;
  job.saves = command.saves;
  job.relay = [&terminal](std::string_view line) { terminal.relay(line); };
  job.print = [&terminal](const FailureReport& failure) { print_failure(terminal, failure); };
  const JobOutcome outcome = run_with_restarts(job, command.restarts, terminal);
  if (outcome.text.empty()) return outcome.code;
  terminal.error(outcome.text);
  terminal.record({{"event", "error"},
                   {"kind", "launch"},
                   {"code", 0},
                   {"exit", outcome.code},
                   {"rank", outcome.rank < 0 ? Json() : Json(outcome.rank)},
                   {"message", outcome.text}});
  return outcome.code;
}

// The others would wait for this rank until their time-out, and then not know why.
void tell_other_ranks(const Job& job, const char* text) noexcept {
  try {
    job.fail(text);
  } catch (const std::exception&) {
    // Nobody is there to be told; this rank's own error is what counts.
  }
}

// Before this rank has met the others. mpirun ends all ranks once one has ended, and no rank ends
// before it has met rank 0: so the ranks that list the problems of a file do so before they can be
// met. Rank 0 then waits for the others, who may never come.
void fail_before_meeting(Context& context, std::shared_ptr<const Job> job, const char* text) {
  if (context.listed_elsewhere) return tell_other_ranks(*job, text);
  context.on_failure = [&context, job = std::move(job), told = std::string(text),
                        report = context.on_failure](uint32_t code, const std::string& failure) {
    report(code, failure);
    const Waiting waiting(context.terminal, kTelling, context.terminal.stderr_is_terminal());
    tell_other_ranks(*job, told.c_str());
  };
}

// A launcher may have started another number of processes than there are ranks.
int work_as_rank(const RankedCommand& command, const Plan& plan, const RankInfo& own) {
  try {
    return command.work(plan, own);
  } catch (const HostError& e) {
    if (e.code() != PLAIT_ERR_STATE) throw;
    throw HostError(e.code(), e.what() + command.other_way);
  }
}

}  // namespace

int on_ranks(Context& context, const FileArguments& file, const RankedCommand& command) {
  signal(SIGPIPE, SIG_IGN);  // a closed pipe behind our output must not end the run
  const auto job = std::make_shared<const Job>(Job::from_environment());
  const RankInfo own = rank_info(Json::parse(job->describe()));
  become_rank(context, own);
  int64_t ranks = 1;
  bool meets = false;  // from here on the session tells the other ranks
  Waiting waiting(context.terminal, kPlanning);
  try {
    Engine engine = context.open_engine();
    const Experiment experiment = Experiment::read(engine, file.path(), file.overrides());
    const Json values = Json::parse(experiment.describe());
    if (const std::string reason = no_processes_reason(engine, values); !reason.empty())
      throw CliError(kUsage, "[cli] topology.backend: " + reason + "; leave topology.backend out");
    command.inspect(experiment);
    if (!own.alone()) {
      if (command.restarts > 0 && !started_by_plait() && own.rank == 0)
        context.terminal.log(PLAIT_LOG_WARN, "[cli] --max-restarts has no effect: " + own.source +
                                                 " has started the ranks, and restarts them if at "
                                                 "all; with --resume auto they continue");
      const Plan plan(experiment, *job);
      waiting.end();
      meets = true;
      return work_as_rank(command, plan, own);
    }
    ranks = command.ranks > 0 ? command.ranks : ranks_of(values);
    const Job started(JobSettings{.size = static_cast<uint32_t>(ranks)});
    if (ranks == 1 && command.restarts == 0) {
      const Plan plan(experiment, started);
      waiting.end();
      return command.work(plan, own);
    }
    // Errors in the plan of one rank are reported once, here, and not by every process. Rank 0
    // prints the warnings.
    const Hush hush(context.terminal);
    Plan(experiment, started);
  } catch (const std::exception& e) {
    if (!own.alone() && !meets) fail_before_meeting(context, job, e.what());
    throw;
  }
  waiting.end();
  return launch(context, file, ranks, command);
}

int in_one_process(Context& context, const FileArguments& file, const RankedCommand& command) {
  signal(SIGPIPE, SIG_IGN);  // as above
  FileArguments alone = file;
  Waiting waiting(context.terminal, kPlanning);
  Engine engine = context.open_engine();
  const Experiment given = Experiment::read(engine, alone.path(), alone.overrides());
  const Json values = Json::parse(given.describe());
  for (std::string& key : on_one_rank(values)) alone.positional.push_back(std::move(key));
  if (command.overrides)
    for (std::string& key : command.overrides(values)) alone.positional.push_back(std::move(key));
  const Experiment experiment = Experiment::read(engine, alone.path(), alone.overrides());
  command.inspect(experiment);
  const Plan plan(experiment);
  waiting.end();
  return command.work(plan, RankInfo{});
}

}  // namespace plait::cli
