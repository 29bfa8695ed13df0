// plait submit: an experiment as a job of Slurm.
#include <sys/random.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bindings/cli/context.hpp"
#include "bindings/cli/made_folder.hpp"
#include "bindings/cli/ranks.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "bindings/cli/submit/sbatch.hpp"
#include "bindings/cli/submit/script.hpp"
#include "bindings/cli/sweep/trials.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

struct SubmitArguments {
  FileArguments file;
  std::string run_dir, gpus, time, partition, account;
  int64_t ranks = 0, nodes = 0, ranks_per_node = 0, cpus = 0, save_before = 120, at_once = 0;
  std::vector<std::string> options, before;
  bool print = false;
};

class Submit {
 public:
  Submit(Context& context, const SubmitArguments& arguments)
      : context_(context), t_(context.terminal), a_(arguments) {}
  int run();

 private:
  Json check_experiment(const Engine& engine, const std::vector<std::string>& words) const;
  void read();
  void lay_out(int64_t ranks);
  void name_run(const Json& values);
  void make_command(const Json& values);
  void check_texts() const;
  void check_time() const;
  void write(const std::string& text) const;
  void tell(const SubmittedJob& job) const;

  Context& context_;
  Terminal& t_;
  const SubmitArguments& a_;
  SweepSpace space_;
  BatchScript script_;
};

std::string value_of_key(const Json& values, const char* key) {
  const auto at = values.find(key);
  return at == values.end() ? std::string() : at->value("value", "");
}

// As the engine names a new run directory.
std::string new_run_name() {
  const time_t now = time(nullptr);
  tm parts = {};
  gmtime_r(&now, &parts);
  char stamp[32];
  strftime(stamp, sizeof stamp, "%Y%m%d-%H%M%S", &parts);
  unsigned random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random) random = static_cast<unsigned>(now);
  return strf("%s-%06x", stamp, random & 0xffffffU);
}

std::string own_path() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  if (error) throw CliError(kEnvironment, "[submit] cannot find this program: " + error.message());
  return path;
}

// What would fail in the job fails here. Returns every value of the experiment.
Json Submit::check_experiment(const Engine& engine, const std::vector<std::string>& words) const {
  FileArguments file = a_.file;
  file.set.clear();
  file.positional = words;
  const Experiment experiment = Experiment::read(engine, file.path(), file.overrides());
  const Json values = Json::parse(experiment.describe());
  if (const std::string endless = unbounded_reason(values); !endless.empty())
    throw CliError(kUsage, "[cli] " + endless);
  if (const std::string reason = no_processes_reason(engine, values); !reason.empty())
    throw CliError(kUsage, "[cli] topology.backend: " + reason + "; leave topology.backend out");
  const int64_t ranks = a_.ranks > 0 ? a_.ranks : ranks_of(values);
  const Plan plan(experiment, Job(JobSettings{.size = static_cast<uint32_t>(ranks)}));
  return values;
}

// All trials must need the same ranks, which are the tasks of each job.
void Submit::read() {
  a_.file.path();
  if (a_.file.is_copy() || a_.file.given == "-")
    throw CliError(kUsage,
                   "[submit] the job reads the experiment when it starts, so not from a pipe; name "
                   "a file");
  space_ = sweep_space(a_.file.overrides());
  if (space_.axes.empty()) {
    if (a_.at_once > 0)
      throw CliError(kUsage,
                     "[submit] --at-once is for several runs, but no key has several "
                     "values: key=A,B");
  } else {
    constexpr uint64_t kMost = 1000;  // what Slurm takes by default
    if (combinations(space_.axes) > kMost)
      throw CliError(kUsage, strf("[submit] the values make more than %llu runs; submit some of "
                                  "them, or draw some with plait sweep --random in one job",
                                  static_cast<unsigned long long>(kMost)));
    script_.trials = grid_trials(space_.axes);
  }
  const Engine engine = context_.open_engine();
  Json values;
  int64_t ranks = 0;
  for (size_t i = 0; i < std::max<size_t>(1, script_.trials.size()); ++i) {
    const Json one = check_experiment(
        engine, script_.trials.empty() ? space_.words : words_of(space_, script_.trials[i]));
    const int64_t needed = a_.ranks > 0 ? a_.ranks : ranks_of(one);
    if (i > 0 && needed != ranks)
      throw CliError(kUsage,
                     strf("[submit] the runs need %lld and %lld ranks, but the runs of one job "
                          "array have as many; submit them one by one",
                          static_cast<long long>(ranks), static_cast<long long>(needed)));
    if (i == 0) values = one, ranks = needed;
  }
  lay_out(ranks);
  name_run(values);
  make_command(values);
}

void Submit::lay_out(int64_t ranks) {
  BatchScript& s = script_;
  s.ranks = ranks;
  s.nodes = a_.nodes;
  s.ranks_per_node = a_.ranks_per_node;
  if (s.nodes == 0)
    s.nodes = s.ranks_per_node == 0 ? 1 : (ranks + s.ranks_per_node - 1) / s.ranks_per_node;
  const auto n = [](int64_t value) { return static_cast<long long>(value); };
  if (s.nodes > ranks)
    throw CliError(kUsage, strf("[submit] --nodes is %lld, but the experiment has %lld rank%s, and "
                                "each node needs one; use fewer nodes, or more ranks in [topology]",
                                n(s.nodes), n(ranks), ranks == 1 ? "" : "s"));
  if (s.ranks_per_node == 0 && ranks % s.nodes == 0) s.ranks_per_node = ranks / s.nodes;
  if (s.ranks_per_node > 0 && s.nodes * s.ranks_per_node < ranks)
    throw CliError(kUsage,
                   strf("[submit] the experiment has %lld ranks, but %lld node%s of %lld have room "
                        "for %lld; use more --nodes or --ranks-per-node, or fewer ranks in "
                        "[topology]",
                        n(ranks), n(s.nodes), s.nodes == 1 ? "" : "s", n(s.ranks_per_node),
                        n(s.nodes * s.ranks_per_node)));
}

// A run directory whose name is known before the job starts, so that each start finds it.
void Submit::name_run(const Json& values) {
  const std::string out = value_of_key(values, "run.out"), name = value_of_key(values, "run.name");
  script_.name = name;
  script_.run_dir = a_.run_dir;
  while (script_.run_dir.size() > 1 && script_.run_dir.ends_with('/')) script_.run_dir.pop_back();
  if (script_.run_dir.empty())
    script_.run_dir = (fs::path(out) / name / new_run_name()).lexically_normal();
}

void Submit::make_command(const Json& values) {
  BatchScript& s = script_;
  s.folder = fs::current_path();
  s.about = "Trains " + a_.file.given + " on " + counted(s.ranks, "rank");
  s.command = {own_path(), "run", a_.file.given};
  // Of two words that set a key the later one wins, so those behind a first axis stay behind it.
  size_t common = space_.words.size();
  for (const SweepAxis& axis : space_.axes) common = std::min(common, axis.word);
  const auto end_of = [&](const std::vector<std::string>& words) {
    return words.begin() + static_cast<std::ptrdiff_t>(common);
  };
  s.command.insert(s.command.end(), space_.words.cbegin(), end_of(space_.words));
  for (std::vector<std::string>& trial : s.trials) {
    const std::vector<std::string> words = words_of(space_, trial);
    trial.assign(end_of(words), words.end());
  }
  for (const std::string& one : context_.plugins)
    s.command.insert(s.command.end(), {"--plugins", one});
  if (const std::string data = context_.data_folder(); !data.empty())
    s.command.insert(s.command.end(), {"--data", data});
  if (a_.ranks > 0) s.command.insert(s.command.end(), {"--ranks", std::to_string(a_.ranks)});
  s.cpus = a_.cpus;
  s.gpus = a_.gpus;
  if (s.gpus.empty() && value_of_key(values, "run.device") == "cuda") {
    // No node gets more ranks than it has GPUs.
    if (s.ranks_per_node == 0) s.ranks_per_node = (s.ranks + s.nodes - 1) / s.nodes;
    s.gpus = std::to_string(s.ranks_per_node);
  }
  s.save_before = a_.save_before;
  s.at_once = a_.at_once;
  s.time = a_.time;
  s.partition = a_.partition;
  s.account = a_.account;
  for (const std::string& one : a_.options)
    s.options.push_back((one.starts_with("-") ? "" : "--") + one);
  s.before = a_.before;
}

// A number of at most nine digits; -1 for other words.
int64_t digits(const std::string& text) {
  constexpr size_t kMost = 9;
  const bool good =
      !text.empty() && text.size() <= kMost &&
      std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  return good ? std::stoll(text) : -1;
}

// Seconds of a time limit of Slurm: M, M:S, H:M:S, D-H, D-H:M, D-H:M:S; -1 for other words.
int64_t seconds_of_limit(const std::string& text) {
  const size_t dash = text.find('-');
  const bool has_days = dash != std::string::npos;
  std::vector<int64_t> all;  // from days or hours down
  std::istringstream rest(has_days ? text.substr(dash + 1) : text);
  for (std::string part; std::getline(rest, part, ':');) all.push_back(digits(part));
  if (text.ends_with(':') || all.empty() || all.size() > 3) return -1;
  // Without days the last number is seconds, but for a single one.
  if (has_days || all.size() == 1) {
    if (!has_days) all.insert(all.begin(), 0);
    all.resize(3);
  } else if (all.size() == 2) {
    all.insert(all.begin(), 0);
  }
  const int64_t days = has_days ? digits(text.substr(0, dash)) : 0;
  if (days < 0 || std::any_of(all.begin(), all.end(), [](int64_t n) { return n < 0; })) return -1;
  return ((days * 24 + all[0]) * 60 + all[1]) * 60 + all[2];
}

// Words of Slurm for no limit, in letters of any case.
bool is_unlimited(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text == "unlimited" || text == "infinite" || text == "-1";
}

void Submit::check_time() const {
  const std::string& text = script_.time;
  if (text.empty() || is_unlimited(text)) return;
  const int64_t limit = seconds_of_limit(text);
  if (limit < 0)
    throw CliError(kUsage, "[submit] --time " + text +
                               " is no time limit; write minutes, hours:minutes:seconds or "
                               "days-hours:minutes:seconds, as 30, 24:00:00 or 3-12:00:00");
  // Slurm takes 0 for no limit.
  if (limit > 0 && limit <= script_.save_before)
    throw CliError(kUsage, strf("[submit] --time %s ends within the %lld s before it at which the "
                                "run saves and is queued again; use a longer --time, or a smaller "
                                "--save-before",
                                text.c_str(), static_cast<long long>(script_.save_before)));
}

// A line of the script must not become two.
void Submit::check_texts() const {
  std::vector<std::string> all = {script_.time,    script_.partition, script_.account,
                                  script_.run_dir, script_.gpus,      script_.folder};
  all.insert(all.end(), script_.options.begin(), script_.options.end());
  for (const std::string& text : all)
    if (std::any_of(text.begin(), text.end(), [](unsigned char c) { return std::iscntrl(c); }))
      throw CliError(kUsage, "[submit] '" + plain(text) +
                                 "' has a line break or another control character, which a line of "
                                 "sbatch options cannot have");
}

void Submit::write(const std::string& text) const {
  const std::string path = script_path(script_.run_dir);
  std::ifstream file(path);
  const std::string before{std::istreambuf_iterator<char>(file), {}};
  if (file && before != text && !context_.yes)
    throw CliError(kUsage, "[submit] '" + path +
                               "' exists and is another script; submit it as it is with sbatch " +
                               path_word(path) + ", or replace it with --yes");
  const fs::path folder =
      script_.trials.empty() ? fs::path(script_.run_dir).parent_path() : fs::path(script_.run_dir);
  if (!folder.empty()) make_folders(folder, "submit", "with --run-dir");
  write_whole_file(path, text);
}

void Submit::tell(const SubmittedJob& job) const {
  const std::string run = path_word(script_.run_dir), script = script_path(script_.run_dir);
  const bool several = !script_.trials.empty();
  const std::string output = (fs::path(script_.folder) / script_.run_dir).string() +
                             (several ? "/%a." : ".") + job.id + ".out";
  const std::string cluster = job.cluster.empty() ? "" : " -M " + job.cluster;
  const std::string watch = "squeue" + cluster + " -j " + job.id,
                    status = (several ? "plait runs " : "plait status ") + run,
                    stop = "scancel" + cluster + " " + job.id,
                    again = "scancel" + cluster + " --batch --signal=USR1 " + job.id;
  t_.record({{"event", "submitted"},
             {"job", job.id},
             {"cluster", job.cluster},
             {"runs", std::max<size_t>(1, script_.trials.size())},
             {"ranks", script_.ranks},
             {"nodes", script_.nodes},
             {"run_dir", script_.run_dir},
             {"script", script},
             {"output", output},
             {"watch", {watch, status}},
             {"stop", stop}});
  t_.line("job " + job.id + (job.cluster.empty() ? "" : " of cluster " + job.cluster) + ": " +
          (script_.trials.empty() ? "" : counted(script_.trials.size(), "run") + " of ") +
          counted(script_.ranks, "rank") + " on " + counted(script_.nodes, "node"));
  if (t_.quiet) return;
  t_.line("script     " + script);
  t_.line("output     " + output + (script_.trials.empty() ? "" : "  (%a: the run)"));
  t_.line("to watch:  " + watch + "; " + status);
  t_.line("to stop:   " + stop + "  (it saves first)");
  t_.line("to save and queue it again now:  " + again);
}

int Submit::run() {
  context_.command_of_file = "plait submit" + context_.arguments_text(a_.file);
  read();
  check_texts();
  check_time();
  const std::string text = script_text(script_);
  if (a_.print) {
    t_.record({{"event", "script"}, {"run_dir", script_.run_dir}, {"script", text}});
    if (t_.human()) t_.raw(text);
    return kOk;
  }
  check_sbatch("use a machine that has Slurm's commands, or --print to see the script");
  write(text);
  const SubmittedJob job = sbatch(script_path(script_.run_dir));
  if (!job.warnings.empty()) t_.notice(job.warnings);
  tell(job);
  return kOk;
}

void add_submit_layout(CLI::App& verb, SubmitArguments& to) {
  verb.add_option("--ranks", to.ranks,
                  "ranks of the run; an axis of [topology] that is 0 follows from them; default: "
                  "as many as [topology] asks for")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  verb.add_option("--nodes", to.nodes,
                  "nodes to share the ranks; default: 1, or as --ranks-per-node needs")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  verb.add_option("--ranks-per-node", to.ranks_per_node,
                  "ranks of each node; default: ranks divided by nodes")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  verb.add_option("--cpus", to.cpus, "cores of each rank; default: what Slurm gives a task, one")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  verb.add_option("--gpus", to.gpus,
                  "GPUs of each node, N or TYPE:N; default: one for each rank where run.device is "
                  "cuda, else none")
      ->type_name("N");
}

void add_submit_job(CLI::App& verb, SubmitArguments& to) {
  verb.add_option("--time", to.time, "time limit, as 30 (minutes), 24:00:00 or 3-12:00:00")
      ->type_name("TIME");
  verb.add_option("--partition", to.partition, "the partition (queue)")->type_name("NAME");
  verb.add_option("--account", to.account, "the account that pays")->type_name("NAME");
  verb.add_option("--sbatch", to.options,
                  "any other option of sbatch, as --sbatch qos=high; may be repeated")
      ->type_name("OPTION")
      ->allow_extra_args(false);
  verb.add_option("--before", to.before,
                  "a line of shell before the ranks start, as --before 'module load cuda'; may be "
                  "repeated")
      ->type_name("LINE")
      ->allow_extra_args(false);
  verb.add_option("--save-before", to.save_before,
                  "seconds before the time limit at which the run saves and the job is queued "
                  "again; default 120")
      ->type_name("SECONDS")
      ->check(CLI::Range(int64_t{1}, int64_t{65535}));
  verb.add_option("--at-once", to.at_once,
                  "runs at a time, of several; default: as Slurm finds room")
      ->type_name("N")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
}

}  // namespace

void add_submit(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "submit",
      "gives FILE to Slurm as a job that saves before its time limit and resumes by itself; with "
      "key=A,B a run for each value");
  const auto arguments = std::make_shared<SubmitArguments>();
  add_file(*verb, arguments->file);
  verb->add_option("--run-dir", arguments->run_dir,
                   "folder for the run's files, which all nodes see; default: a new folder below "
                   "run.out; the script and the output lie beside it")
      ->type_name("DIR");
  add_submit_layout(*verb, *arguments);
  add_submit_job(*verb, *arguments);
  verb->add_flag("--print,--dry-run", arguments->print,
                 "prints the script for sbatch; writes and submits nothing");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return Submit(context, *arguments).run(); };
  });
}

}  // namespace plait::cli
