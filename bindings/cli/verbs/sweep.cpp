// plait sweep: one experiment with different values of a few keys, and which did best.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/launch/cores.hpp"
#include "bindings/cli/metrics.hpp"
#include "bindings/cli/run_record.hpp"
#include "bindings/cli/sweep/pool.hpp"
#include "bindings/cli/sweep/trials.hpp"
#include "bindings/cli/table.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct SweepArguments {
  FileArguments file;
  std::string folder, metric;
  int jobs = 0;
  uint64_t random = 0, seed = 1;
  bool halving = false, maximize = false;
};

struct Trial {
  std::vector<std::string> overrides;  // of the axes
  std::string path;                    // of its run directory
  RunRecord run;
  double value = std::nan("");  // of the metric
  int code = 0;                 // of its newest process
};

class Sweep {
 public:
  Sweep(Context& context, const SweepArguments& arguments)
      : context_(context), t_(context.terminal), a_(arguments) {}
  int run();

 private:
  void make_trials();
  void check_trials();
  void keep_record() const;
  PoolJob job_of(const Trial& trial, int64_t until) const;
  int run_round(std::vector<size_t> trials, int64_t until);
  void ended(size_t index, int code);
  void read(Trial& trial) const;
  std::vector<size_t> best_first(std::vector<size_t> trials) const;
  int finish(int signal);
  void show_table(const std::vector<size_t>& order) const;

  Context& context_;
  Terminal& t_;
  const SweepArguments& a_;
  SweepSpace space_;
  std::string folder_, metric_;
  int64_t steps_ = 0;
  std::vector<Trial> trials_;
};

std::string joined(const std::vector<std::string>& words) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : " ") + word;
  return all;
}

void Sweep::make_trials() {
  std::vector<std::string> words = a_.file.set;
  words.insert(words.end(), a_.file.positional.begin(), a_.file.positional.end());
  space_ = sweep_space(words);
  if (space_.axes.empty())
    throw CliError(kUsage,
                   "[cli] no key has several values; write key=A,B, for instance "
                   "optimizer.learning_rate=1e-3,3e-3");
  constexpr size_t kMost = 10000;
  auto all =
      a_.random > 0 ? random_trials(space_.axes, a_.random, a_.seed) : grid_trials(space_.axes);
  if (all.size() > kMost)
    throw CliError(kUsage, strf("[cli] the sweep has %zu trials, more than %zu; --random N draws "
                                "some of them",
                                all.size(), kMost));
  for (auto& overrides : all) trials_.push_back({std::move(overrides), "", {}});
}

// All of them, before the first one starts; sets what follows from the experiment.
void Sweep::check_trials() {
  if (a_.file.is_copy() || a_.file.given == "-")
    throw CliError(kUsage, "[cli] a sweep reads its experiment for each trial, so not from a pipe");
  Engine engine = context_.open_engine();
  for (const Trial& trial : trials_) {
    std::vector<std::string> overrides = a_.file.overrides();
    std::erase_if(overrides, [&](const std::string& word) {
      return std::any_of(space_.axes.begin(), space_.axes.end(),
                         [&](const SweepAxis& axis) { return word.starts_with(axis.key + "="); });
    });
    overrides.insert(overrides.end(), trial.overrides.begin(), trial.overrides.end());
    const Experiment experiment = Experiment::read(engine, a_.file.path(), overrides);
    if (&trial != &trials_.front()) continue;
    const Json values = Json::parse(experiment.describe());
    const auto text = [&](const char* key) {
      const auto at = values.find(key);
      return at == values.end() ? std::string() : at->value("value", "");
    };
    if (const std::string endless = unbounded_reason(values); !endless.empty())
      throw CliError(kUsage, "[cli] " + endless);
    folder_ = a_.folder.empty() ? text("run.out") + "/" + text("run.name") + "-sweep" : a_.folder;
    if (a_.halving) steps_ = Json::parse(Plan(experiment).describe()).value("steps", int64_t{0});
  }
  for (size_t i = 0; i < trials_.size(); ++i) trials_[i].path = folder_ + strf("/%04zu", i);
}

// So that the same command goes on, and another one is refused.
void Sweep::keep_record() const {
  Json trials = Json::array();
  for (const Trial& trial : trials_) trials.push_back(trial.overrides);
  const Json record = {
      {"schema", 1}, {"file", a_.file.given}, {"overrides", space_.overrides}, {"trials", trials}};
  const std::string path = folder_ + "/sweep.json";
  std::error_code error;
  fs::create_directories(folder_, error);
  if (std::ifstream before(path); before) {
    const std::string text{std::istreambuf_iterator<char>(before), {}};
    if (Json::parse(text, nullptr, false) == record) return;
    throw CliError(kUsage, "[cli] '" + folder_ + "' holds another sweep: " + path +
                               "; name another folder with --dir, or remove it");
  }
  std::ofstream file(path);
  file << record.dump(1) << "\n";
  if (!file.flush())
    throw CliError(kEnvironment, "[cli] '" + path + "' cannot be written: " + std::strerror(errno));
}

PoolJob Sweep::job_of(const Trial& trial, int64_t until) const {
  std::vector<std::string> command{"plait", "run", a_.file.given};
  for (const auto* words : {&space_.overrides, &trial.overrides})
    command.insert(command.end(), words->begin(), words->end());
  for (const std::string& one : context_.plugins) command.insert(command.end(), {"--plugins", one});
  if (!context_.data.empty()) command.insert(command.end(), {"--data", context_.data});
  command.insert(command.end(), {"--run-dir", trial.path, "--resume", "auto", "--quiet"});
  if (until > 0 && until < steps_)
    command.insert(command.end(), {"--until", std::to_string(until)});
  return {std::move(command), trial.path + ".log"};
}

void Sweep::read(Trial& trial) const {
  trial.run = read_run(trial.path);
  read_values(trial.run);
  trial.value = value_of(trial.run, metric_);
  // A round of halving may end before the first evaluation.
  if (std::isnan(trial.value) && a_.halving) trial.value = value_of(trial.run, "mean_loss");
}

void Sweep::ended(size_t index, int code) {
  Trial& trial = trials_[index];
  trial.code = code;
  read(trial);
  const bool failed = code != kOk && code != kInterrupted;
  t_.record({{"event", "trial"},
             {"trial", index},
             {"overrides", trial.overrides},
             {"code", code},
             {"run", record_of(trial.run)}});
  std::string line = strf("%04zu ", index) + joined(trial.overrides) +
                     strf(": step %lld", static_cast<long long>(trial.run.step));
  if (!std::isnan(trial.value)) line += ", " + metric_ + " " + metric_text(trial.value);
  if (failed)
    line += strf(", failed with code %d", code) +
            (trial.run.message.empty() ? "; see " + trial.path + ".log" : ": " + trial.run.message);
  if (!t_.quiet) t_.line(line);
}

// To step `until`, or to the end. Returns the signal that ended it, or 0.
int Sweep::run_round(std::vector<size_t> trials, int64_t until) {
  std::vector<PoolJob> jobs;
  std::vector<size_t> of_job;
  for (const size_t i : trials) {
    read(trials_[i]);
    const RunRecord& run = trials_[i].run;
    if (run.state == "done" || (until > 0 && run.step >= until)) continue;  // by an earlier command
    jobs.push_back(job_of(trials_[i], until));
    of_job.push_back(i);
  }
  const size_t cores = allowed_cores().size(),
               at_once = a_.jobs > 0 ? static_cast<size_t>(a_.jobs) : cores;
  return run_pool(jobs, std::clamp<size_t>(jobs.size(), 1, at_once),
                  [&](size_t job, int code) { ended(of_job[job], code); });
}

// Trials without a value, as those that failed, come last.
std::vector<size_t> Sweep::best_first(std::vector<size_t> trials) const {
  const auto key = [&](size_t i) {
    const double v = trials_[i].value;
    return std::isnan(v) ? HUGE_VAL : a_.maximize ? -v : v;
  };
  std::stable_sort(trials.begin(), trials.end(),
                   [&](size_t a, size_t b) { return key(a) < key(b); });
  return trials;
}

void Sweep::show_table(const std::vector<size_t>& order) const {
  Table table("l" + std::string(space_.axes.size(), 'l') + "rrrl");
  std::vector<std::string> head{"trial"};
  for (const SweepAxis& axis : space_.axes) head.push_back(axis.key);
  head.insert(head.end(), {metric_, "loss", "step", "state"});
  table.row(head);
  for (const size_t i : order) {
    const Trial& trial = trials_[i];
    std::vector<std::string> row{strf("%04zu", i)};
    for (const std::string& word : trial.overrides) row.push_back(word.substr(word.find('=') + 1));
    const double loss = value_of(trial.run, "loss");
    row.insert(row.end(), {std::isnan(trial.value) ? "" : metric_text(trial.value),
                           std::isnan(loss) ? "" : metric_text(loss),
                           strf("%lld", static_cast<long long>(trial.run.step)), trial.run.state});
    table.row(row);
  }
  t_.raw(table.text());
}

int Sweep::finish(int signal) {
  std::vector<size_t> all(trials_.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
    read(trials_[i]);
  }
  const std::vector<size_t> order = best_first(std::move(all));
  Json done = {{"event", "done"}, {"schema", 1}, {"metric", metric_}, {"trials", Json::array()}};
  bool failed = false;
  for (const size_t i : order) {
    const Trial& trial = trials_[i];
    failed = failed || (trial.code != kOk && trial.code != kInterrupted);
    done["trials"].push_back({{"trial", i},
                              {"overrides", trial.overrides},
                              {"value", json_number(trial.value)},
                              {"step", trial.run.step},
                              {"state", trial.run.state},
                              {"run_dir", trial.path}});
  }
  t_.record(done);
  if (t_.human()) {
    show_table(order);
    t_.line("runs are in " + folder_ + "; plait compare shows their curves");
  }
  if (signal == 0) return failed ? kFailed : kOk;
  t_.notice("stopped on request; the same command goes on: " + context_.command);
  return kInterrupted;
}

int Sweep::run() {
  make_trials();
  check_trials();
  metric_ = a_.metric.empty() ? "eval/loss" : a_.metric;
  keep_record();
  if (!t_.quiet)
    t_.line(strf("%zu trials of %s in %s", trials_.size(), a_.file.given.c_str(), folder_.c_str()));
  std::vector<size_t> left(trials_.size());
  for (size_t i = 0; i < left.size(); ++i) left[i] = i;
  if (!a_.halving) return finish(run_round(left, 0));
  const std::vector<int64_t> ends = halving_rounds(trials_.size(), steps_);
  for (size_t round = 0; round < ends.size(); ++round) {
    if (!t_.quiet)
      t_.line(strf("round %zu of %zu: %zu trials to step %lld", round + 1, ends.size(), left.size(),
                   static_cast<long long>(ends[round])));
    if (const int signal = run_round(left, ends[round])) return finish(signal);
    left = best_first(std::move(left));
    left.resize((left.size() + 1) / 2);
  }
  return finish(0);
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
  verb->add_option("--metric", arguments->metric, "what the best has least of; default: eval/loss")
      ->type_name("NAME");
  verb->add_flag("--maximize", arguments->maximize, "the best has most of it");
  verb->add_option("--jobs", arguments->jobs, "trials at a time; default: one per core")
      ->type_name("N")
      ->check(CLI::Range(1, 4096));
  verb->add_option("--random", arguments->random,
                   "draws so many combinations; default: all of them")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  verb->add_option("--seed", arguments->seed, "of --random; default 1")->type_name("N");
  verb->add_flag("--halving", arguments->halving,
                 "successive halving: trains all for a part of the steps, the better half for "
                 "twice as many, and so on");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return Sweep(context, *arguments).run(); };
  });
}

}  // namespace plait::cli
