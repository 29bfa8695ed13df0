// plait sweep: one experiment with different values of a few keys, and which did best.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <csignal>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <tuple>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/launch/cores.hpp"
#include "bindings/cli/made_folder.hpp"
#include "bindings/cli/ranks.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "bindings/cli/sweep/lock.hpp"
#include "bindings/cli/sweep/outcome.hpp"
#include "bindings/cli/sweep/pool.hpp"
#include "bindings/cli/sweep/table.hpp"
#include "bindings/cli/sweep/trial.hpp"
#include "bindings/cli/sweep/trials.hpp"
#include "bindings/cli/terminal/table.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct SweepArguments {
  FileArguments file;
  std::string folder, metric;
  int jobs = 0;
  uint64_t random = 0, seed = 1;
  bool halving = false, maximize = false, minimize = false;
};

class Sweep {
 public:
  Sweep(Context& context, const SweepArguments& arguments)
      : context_(context), t_(context.terminal), a_(arguments) {}
  int run();

 private:
  void make_trials();
  void check_trials();
  Json plan_of(const Engine& engine) const;
  Experiment read_trial(const Engine& engine, const Trial& trial) const;
  void choose_metric(const Json& values, const Json& plan);
  void check_metric() const;
  Json record_of_sweep(const Json& values) const;
  void open_record();
  bool is_record(const std::string& path, Json& rounds) const;
  std::string free_folder(const std::string& name) const;
  void write_record() const;
  PoolJob job_of(const Trial& trial, int64_t until) const;
  int run_round(const std::vector<size_t>& trials, int64_t until);
  int run_halving();
  void ended(size_t index, const PoolEnd& end);
  void read(Trial& trial) const;
  std::string why_unranked(const std::vector<size_t>& trials, int64_t step) const;
  std::vector<size_t> better_half(std::vector<size_t> trials, int64_t step) const;
  void mark_dropped();
  std::vector<size_t> ranking() const;
  int finish(int signal);

  Context& context_;
  Terminal& t_;
  const SweepArguments& a_;
  SweepSpace space_;
  std::string folder_, metric_;
  bool maximize_ = false;  // larger values of it are better
  std::optional<SweepLock> lock_;
  int64_t steps_ = 0;  // of --halving
  std::vector<Trial> trials_;
  Json record_;  // sweep.json
};

void Sweep::make_trials() {
  std::vector<std::string> words = a_.file.set;
  words.insert(words.end(), a_.file.positional.begin(), a_.file.positional.end());
  space_ = sweep_space(words);
  if (space_.axes.empty())
    throw CliError(kUsage,
                   "[cli] no key has several values; write key=A,B, for instance "
                   "optimizer.learning_rate=1e-3,3e-3");
  constexpr uint64_t kMost = 10000;
  const uint64_t all = combinations(space_.axes),
                 wanted = a_.random > 0 ? std::min(a_.random, all) : all;
  if (wanted > kMost)
    throw CliError(kUsage, strf("[cli] the sweep has %llu trials, more than %llu; --random N draws "
                                "some of them",
                                static_cast<unsigned long long>(wanted),
                                static_cast<unsigned long long>(kMost)));
  auto trials =
      a_.random > 0 ? random_trials(space_.axes, a_.random, a_.seed) : grid_trials(space_.axes);
  for (auto& overrides : trials) trials_.push_back({std::move(overrides), "", {}});
}

// As its process will read it.
Experiment Sweep::read_trial(const Engine& engine, const Trial& trial) const {
  FileArguments file = a_.file;
  file.set.clear();
  file.positional = words_of(space_, trial.overrides);
  return Experiment::read(engine, file.path(), file.overrides());
}

// Of the first trial that has one: others may ask for what cannot be planned, which is then their
// failure alone. Errors: of the first one, if none has.
Json Sweep::plan_of(const Engine& engine) const {
  std::exception_ptr first;
  t_.silent = true;  // each trial's process tells its warnings
  for (const Trial& trial : trials_) {
    try {
      const Experiment experiment = read_trial(engine, trial);
      const int64_t ranks = ranks_of(Json::parse(experiment.describe()));
      const Job job(JobSettings{.size = static_cast<uint32_t>(ranks)});
      const Plan plan(experiment, job);
      t_.silent = false;
      return Json::parse(plan.describe());
    } catch (const HostError&) {
      if (!first) first = std::current_exception();
    }
  }
  t_.silent = false;
  std::rethrow_exception(first);
}

// All of them, before the first one starts; sets what follows from the experiment.
void Sweep::check_trials() {
  a_.file.path();  // which reads a pipe
  if (a_.file.is_copy() || a_.file.given == "-")
    throw CliError(kUsage, "[cli] a sweep reads its experiment for each trial, so not from a pipe");
  if (a_.halving)
    for (const SweepAxis& axis : space_.axes)
      for (const char* length : {"run.steps", "run.epochs", "batch."})
        if (axis.key.starts_with(length))
          throw CliError(kUsage, "[cli] --halving compares trials of one length, which '" +
                                     axis.key + "' changes");
  Engine engine = context_.open_engine();
  Json values;
  for (const Trial& trial : trials_) {
    const Experiment experiment = read_trial(engine, trial);
    if (&trial != &trials_.front()) continue;
    values = Json::parse(experiment.describe());
  }
  const auto text = [&](const char* key) {
    const auto at = values.find(key);
    return at == values.end() ? std::string() : at->value("value", "");
  };
  if (const std::string endless = unbounded_reason(values); !endless.empty())
    throw CliError(kUsage, "[cli] " + endless);
  const Json plan = plan_of(engine);
  steps_ = plan.value("steps", int64_t{0});
  choose_metric(values, plan);
  record_ = record_of_sweep(values);
  folder_ = a_.folder.empty() ? free_folder(text("run.out") + "/" + text("run.name") + "-sweep")
                              : a_.folder;
  for (size_t i = 0; i < trials_.size(); ++i) {
    trials_[i].path = folder_ + strf("/%04zu", i);
    trials_[i].log = folder_ + strf("/logs/%04zu.log", i);
  }
  open_record();
}

bool is_better_high(const Json& plan, const std::string& metric) {
  const std::string name = metric.starts_with("eval/") ? metric.substr(5) : metric;
  const Json high = plan.at("metrics").value("higher_is_better", Json::array());
  return std::find(high.begin(), high.end(), name) != high.end();
}

// The loss of the evaluation, or that of training where there is none.
void Sweep::choose_metric(const Json& values, const Json& plan) {
  bool evaluates = false;
  for (const auto& [key, value] : values.items())
    evaluates = evaluates || key.starts_with("data.eval.");
  metric_ = !a_.metric.empty() ? a_.metric : evaluates ? "eval/loss" : "mean_loss";
  if (!evaluates && metric_.starts_with("eval/"))
    throw CliError(kUsage,
                   "[cli] --metric is '" + metric_ + "', but the experiment has no [data.eval]");
  const std::vector<std::string> names = ranked_values(plan, evaluates);
  const auto is_there = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::string evaluated = "eval/" + metric_;
  if (!is_there(metric_)) {
    const std::string near = is_there(evaluated) ? evaluated : nearest(metric_, names);
    throw CliError(kUsage, "[cli] --metric '" + metric_ + "' is no value of these trials" +
                               (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                               "; there are: " + joined(names, ", "));
  }
  maximize_ = !a_.minimize && (a_.maximize || is_better_high(plan, metric_));
  if (is_there(evaluated) && metric_ != "loss" && !t_.json)
    t_.note("--metric " + metric_ + " is that of training; that of the evaluation is " + evaluated);
}

// Some trials have run: one of them should know the metric.
void Sweep::check_metric() const {
  std::vector<std::string> there;
  for (const Trial& trial : trials_) {
    if (!std::isnan(trial.value)) return;
    for (const auto& [name, value] : trial.run.values) there.push_back(name);
  }
  if (there.empty()) return;  // all have failed, or have no line yet
  if (std::find(there.begin(), there.end(), metric_) != there.end())
    return t_.notice("'" + metric_ + "' is nan in all trials; their logs have a warning");
  const std::string near = nearest(metric_, there);
  t_.notice("no trial has a value '" + metric_ + "'" +
            (near.empty() ? "" : " (did you mean '" + near + "'?)") +
            "; an evaluation is made every evaluate.every steps and at the end");
}

// Each round is a list of indices of trials.
bool are_rounds(const Json& rounds, size_t n_trials) {
  const auto is_index = [&](const Json& i) {
    return i.is_number_unsigned() && i.get<uint64_t>() < n_trials;
  };
  return rounds.is_array() && std::all_of(rounds.begin(), rounds.end(), [&](const Json& round) {
           return round.is_array() && std::all_of(round.begin(), round.end(), is_index);
         });
}

Json Sweep::record_of_sweep(const Json& values) const {
  Json trials = Json::array();
  for (const Trial& trial : trials_) trials.push_back(trial.overrides);
  return {{"schema", 1},          {"file", a_.file.given}, {"words", space_.words},
          {"metric", metric_},    {"maximize", maximize_}, {"halving", a_.halving},
          {"experiment", values}, {"trials", trials},      {"rounds", Json::array()}};
}

// Whether the file is that of this sweep; then sets the rounds that it has decided.
bool Sweep::is_record(const std::string& path, Json& rounds) const {
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  Json before = Json::parse(text, nullptr, false);
  if (!before.is_object()) return false;
  rounds = before.value("rounds", Json::array());
  before["rounds"] = Json::array();
  return before == record_ && are_rounds(rounds, trials_.size());
}

// The name, or with -2, -3, … behind it: the first that holds this sweep or none.
std::string Sweep::free_folder(const std::string& name) const {
  std::string folder = name;
  Json rounds;
  for (int n = 2; fs::exists(folder + "/sweep.json") && !is_record(folder + "/sweep.json", rounds);
       ++n)
    folder = name + strf("-%d", n);
  if (folder != name && !t_.json) t_.note(name + " holds another sweep");
  return folder;
}

// So that the same command continues the sweep, and another one is refused.
void Sweep::open_record() {
  const std::string path = folder_ + "/sweep.json";
  make_folders(folder_, "cli", "with --dir");
  lock_.emplace(folder_);
  if (!fs::exists(path)) return write_record();
  Json rounds;
  if (!is_record(path, rounds))
    throw CliError(kUsage, "[cli] '" + folder_ +
                               "' holds another sweep, or one of an experiment "
                               "that has changed since: " +
                               path + "; name another folder with --dir, or remove it");
  record_["rounds"] = rounds;
  mark_dropped();
}

void Sweep::write_record() const {
  write_whole_file(folder_ + "/sweep.json", record_.dump(1) + "\n");
}

PoolJob Sweep::job_of(const Trial& trial, int64_t until) const {
  std::vector<std::string> command{"plait", "run", a_.file.given};
  const std::vector<std::string> words = words_of(space_, trial.overrides);
  command.insert(command.end(), words.begin(), words.end());
  for (const std::string& one : context_.plugins) command.insert(command.end(), {"--plugins", one});
  if (!context_.data.empty()) command.insert(command.end(), {"--data", context_.data});
  command.insert(command.end(), {"--run-dir", trial.path, "--resume", "auto", "--quiet"});
  if (until > 0 && until < steps_)
    command.insert(command.end(), {"--until", std::to_string(until)});
  return {std::move(command), trial.log};
}

void Sweep::read(Trial& trial) const {
  trial.run = read_run(trial.path);
  read_values(trial.run);
  trial.value = value_of(trial.run, metric_);
  trial.loss = value_of(trial.run, "mean_loss");
}

void Sweep::ended(size_t index, const PoolEnd& end) {
  Trial& trial = trials_[index];
  trial.code = end.code;
  trial.stopped = end.stopped;
  read(trial);
  t_.record({{"event", "trial"},
             {"trial", index},
             {"overrides", trial.overrides},
             {"code", trial.code},
             {"state", trial.state()},
             {"reason", trial.reason()},
             {"run", record_of(trial.run)}});
  std::string what = strf(": step %lld", static_cast<long long>(trial.run.step));
  if (!std::isnan(trial.value)) what += ", " + metric_ + " " + value_text(metric_, trial.value);
  const std::string number = strf("%04zu ", index),
                    words = words_of_trial(space_.axes, trial, false);
  const bool whole = fits(number + words + what, t_.columns());
  if (trial.failed())
    what += strf(", failed with code %d: ", trial.code) + trial.reason() + "; see " + trial.log;
  if (!t_.quiet)
    t_.paragraph(number + (whole ? words : words_of_trial(space_.axes, trial, true)) + what);
}

// To step `until`, or to the end where that is 0. Returns the signal that ended it, or 0.
int Sweep::run_round(const std::vector<size_t>& trials, int64_t until) {
  std::vector<PoolJob> jobs;
  std::vector<size_t> of_job;
  for (const size_t i : trials) {
    read(trials_[i]);
    const RunRecord& run = trials_[i].run;
    const bool halted =
        until > 0 && until < steps_ && run.step >= until &&
        (run.state == "interrupted" || run.state == "done" || run.state == kDropped);
    if (run.state == "done" || halted) continue;  // by an earlier command
    jobs.push_back(job_of(trials_[i], until));
    of_job.push_back(i);
  }
  const size_t cores = std::max<size_t>(1, allowed_cores().size()),
               at_once = a_.jobs > 0 ? static_cast<size_t>(a_.jobs) : cores;
  return run_pool(jobs, std::clamp<size_t>(jobs.size(), 1, at_once),
                  [&](const PoolEnd& end) { ended(of_job[end.job], end); });
}

// Why the metric cannot rank these trials at a step; "": it can.
std::string Sweep::why_unranked(const std::vector<size_t>& trials, int64_t step) const {
  std::vector<std::string> nan;
  bool all_have_it = true;
  for (const size_t i : trials) {
    const Trial& trial = trials_[i];
    if (!std::isnan(trial.value)) continue;
    if (trial.knows(metric_))
      nan.push_back(strf("%04zu", i));
    else
      all_have_it = false;
  }
  const std::string at = strf("at step %lld ", static_cast<long long>(step)),
                    instead = metric_ != "mean_loss" ? ": mean_loss decides, lowest first"
                              : all_have_it          ? ": nan comes last"
                                                     : ": trials without it come last";
  if (!all_have_it)
    return at + "the trials have no '" + metric_ + "' yet" + instead +
           (metric_.starts_with("eval/")
                ? strf("; evaluate.every=%lld evaluates them there", static_cast<long long>(step))
                : "");
  if (nan.empty()) return "";
  constexpr size_t kMost = 4;
  const size_t more = nan.size() - std::min(nan.size(), kMost);
  nan.resize(nan.size() - more);
  return at + "'" + metric_ + "' is nan in " + (nan.size() + more > 1 ? "trials " : "trial ") +
         joined(nan, ", ") + (more > 0 ? strf(" and %zu more", more) : "") +
         ", whose logs say why" + instead;
}

// By the metric if all that have not failed have it at their newest step, which is `step`, else by
// the training loss. Trials without a number come last.
std::vector<size_t> Sweep::better_half(std::vector<size_t> trials, int64_t step) const {
  std::erase_if(trials, [&](size_t i) { return trials_[i].failed(); });
  const std::string unranked = why_unranked(trials, step);
  if (!unranked.empty()) t_.notice(unranked);
  const bool by_metric = unranked.empty() || metric_ == "mean_loss";
  const auto key = [&](size_t i) {
    const double v =
        by_metric ? (maximize_ ? -trials_[i].value : trials_[i].value) : trials_[i].loss;
    return std::isnan(v) ? HUGE_VAL : v;
  };
  std::stable_sort(trials.begin(), trials.end(),
                   [&](size_t a, size_t b) { return key(a) < key(b); });
  trials.resize((trials.size() + 1) / 2);
  return trials;
}

// Those that no decided round has kept.
void Sweep::mark_dropped() {
  const Json& rounds = record_["rounds"];
  if (rounds.empty()) return;
  const auto left = rounds.back().get<std::set<size_t>>();
  for (size_t i = 0; i < trials_.size(); ++i) {
    trials_[i].dropped = !left.contains(i);
    if (trials_[i].dropped && read_state(trials_[i].path) == "interrupted")
      note_state(trials_[i].path, kDropped);  // for whoever looks at the run alone
  }
}

// A round that is decided is not decided again when the same command continues the sweep.
int Sweep::run_halving() {
  const std::vector<int64_t> ends = halving_rounds(trials_.size(), steps_);
  std::vector<size_t> left(trials_.size());
  for (size_t i = 0; i < left.size(); ++i) left[i] = i;
  Json& rounds = record_["rounds"];
  for (size_t round = 0; round < ends.size(); ++round) {
    if (!t_.quiet)
      t_.line(strf("round %zu of %zu: %s to step %lld", round + 1, ends.size(),
                   counted(static_cast<int64_t>(left.size()), "trial").c_str(),
                   static_cast<long long>(ends[round])));
    const bool decided = round < rounds.size();
    const bool last = round + 1 == ends.size();
    if (!decided || last)
      if (const int signal = run_round(left, ends[round])) return signal;
    if (!decided) {
      rounds.push_back(last ? left : better_half(left, ends[round]));
      write_record();
      mark_dropped();
    }
    left = rounds[round].get<std::vector<size_t>>();
  }
  return 0;
}

// Those that went further come first: of several lengths only halving makes some. Failed ones and
// those without a value come last.
std::vector<size_t> Sweep::ranking() const {
  std::vector<size_t> order(trials_.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  const auto key = [&](size_t i) {
    const Trial& trial = trials_[i];
    const double v = std::isnan(trial.value) ? HUGE_VAL : maximize_ ? -trial.value : trial.value;
    return std::make_tuple(trial.failed(), a_.halving ? -trial.run.step : 0, v);
  };
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  return order;
}

int Sweep::finish(int signal) {
  for (Trial& trial : trials_) read(trial);
  const std::vector<size_t> order = ranking();
  Json done = {{"event", "done"}, {"schema", 1}, {"metric", metric_}, {"trials", Json::array()}};
  bool failed = false;
  for (const size_t i : order) {
    const Trial& trial = trials_[i];
    // One that was stopped by somebody else has not done its work.
    failed = failed || trial.failed() || (signal == 0 && trial.code == kInterrupted);
    done["trials"].push_back({{"trial", i},
                              {"overrides", trial.overrides},
                              {"value", json_number(trial.value)},
                              {"step", trial.run.step},
                              {"state", trial.state()},
                              {"reason", trial.reason()},
                              {"run_dir", trial.path}});
  }
  t_.record(done);
  if (t_.human()) {
    show_trials(t_, {space_.axes, trials_, metric_}, order);
    t_.line("runs are in " + folder_);
    tell_comparison(t_, trials_, order);
  }
  if (signal == 0) return failed ? kFailed : kOk;
  t_.notice("stopped on request; the same command continues: " + context_.command);
  return kInterrupted;
}

int Sweep::run() {
  ::signal(SIGPIPE, SIG_IGN);  // a reader that goes away does not end the trials
  make_trials();
  check_trials();
  if (!t_.quiet)
    t_.paragraph(
        strf("%zu trials of %s in %s", trials_.size(), a_.file.given.c_str(), folder_.c_str()));
  if (a_.halving) return finish(run_halving());
  std::vector<size_t> all(trials_.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = i;
  const int signal = run_round(all, 0);
  if (signal == 0) check_metric();
  return finish(signal);
}

}  // namespace

void add_sweep(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "sweep", "trains FILE with each of several values, key=A,B, and shows which did best");
  const auto arguments = std::make_shared<SweepArguments>();
  add_file(*verb, arguments->file);
  verb->add_option("--dir", arguments->folder,
                   "folder of the runs; default: NAME-sweep below run.out")
      ->type_name("DIR");
  verb->add_option("--metric", arguments->metric,
                   "value to rank by, best first; default: eval/loss, without [data.eval] "
                   "mean_loss")
      ->type_name("NAME");
  CLI::Option* maximize = verb->add_flag(
      "--maximize", arguments->maximize,
      "higher is better: ranks by --metric, highest first; default: as the metric says of itself");
  verb->add_flag("--minimize", arguments->minimize, "lower is better: ranks lowest first")
      ->excludes(maximize);
  verb->add_option("--jobs", arguments->jobs, "trials at a time; default: one per core")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--random", arguments->random,
                   "draws so many combinations; default: all of them")
      ->type_name("N")
      ->check(whole_number(1));
  verb->add_option("--seed", arguments->seed, "seed of --random; default: 1")->type_name("N");
  verb->add_flag("--halving", arguments->halving,
                 "successive halving: trains all for a part of the steps, the better half for "
                 "twice as many, and so on");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return Sweep(context, *arguments).run(); };
  });
}

}  // namespace plait::cli
