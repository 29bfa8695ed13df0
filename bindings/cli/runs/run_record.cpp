#include "bindings/cli/runs/run_record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <future>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <sstream>
#include <system_error>
#include <thread>
#include <tuple>

#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/line_reader.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/newest_checkpoint.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

// Steps that a rate is over: enough for one that is steady, few enough for one that is of now.
constexpr size_t kRecent = 256;

// An object, which is empty where the file is absent or damaged.
Json read_json(const std::string& path) {
  Json json = Json::parse(read_small_file(path), nullptr, false);
  if (!json.is_object()) json = Json::object();
  return json;
}

// Takes members of an object, until it has all: parsing ends there.
class Members : public nlohmann::json_sax<Json> {
 public:
  explicit Members(std::initializer_list<std::string_view> names) : names_(names) {}
  Json taken = Json::object();

  bool null() override { return true; }
  bool boolean(bool v) override { return take(v); }
  bool number_integer(int64_t v) override { return take(v); }
  bool number_unsigned(uint64_t v) override { return take(v); }
  bool number_float(double v, const std::string&) override { return take(v); }
  bool string(std::string& v) override { return take(v); }
  bool binary(Json::binary_t&) override { return true; }
  bool start_object(size_t) override { return begin(); }
  bool start_array(size_t) override { return begin(); }
  bool end_object() override { return end(); }
  bool end_array() override { return end(); }
  bool key(std::string& name) override {
    if (depth_ == 1) name_ = name;
    return true;
  }
  bool parse_error(size_t, const std::string&, const Json::exception&) override { return false; }

 private:
  bool begin() { return ++depth_, true; }
  bool end() { return --depth_, true; }
  template <class T>
  bool take(const T& value) {
    if (depth_ != 1 || std::find(names_.begin(), names_.end(), name_) == names_.end()) return true;
    taken[name_] = value;
    return taken.size() < names_.size();
  }

  const std::vector<std::string_view> names_;
  std::string name_;
  int depth_ = 0;
};

// These members of an object, of those that are neither lists nor objects: what a list shows of an
// env.json stands in its beginning, and to parse the rest would be most of the time. What a damaged
// file has before the damage counts.
Json read_members(const std::string& path, std::initializer_list<std::string_view> names) {
  Members members(names);
  const std::string text = read_small_file(path);
  Json::sax_parse(text.data(), text.data() + text.size(), &members);
  return std::move(members.taken);
}

// Members of an expected type, else what a RunRecord begins with.
void get(const Json& from, const char* name, std::string& to) {
  if (const auto at = from.find(name); at != from.end() && at->is_string())
    to = at->get<std::string>();
}
void get(const Json& from, const char* name, int64_t& to) {
  if (const auto at = from.find(name); at != from.end() && at->is_number_integer())
    to = at->get<int64_t>();
}
void get(const Json& from, const char* name, double& to) {
  if (const auto at = from.find(name); at != from.end() && at->is_number()) to = at->get<double>();
}

// Runs of older engines may say "aborted".
std::string shown_state(const Json& status) {
  std::string state = RunRecord().state;
  get(status, "state", state);
  return state == "aborted" ? "failed" : state;
}

// A resumed run adds env-2.json, env-3.json, ….
std::string newest_environment(const std::string& run) {
  std::string path = run + "/env.json", next;
  std::error_code ignored;
  for (int n = 2; fs::exists(next = strf("%s/env-%d.json", run.c_str(), n), ignored); ++n)
    path = next;
  return path;
}

// The engine locks a file of the run for as long as it runs, on any machine that shares the file
// system; the process id tells it where locks do not work.
bool is_gone(const RunRecord& run) {
  const int lock = open((run.path + "/lock").c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  const bool held = lock >= 0 && flock(lock, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (lock >= 0) close(lock);
  static const std::string host = own_host();
  const bool ended = run.host == host && run.process > 0 &&
                     kill(static_cast<pid_t>(run.process), 0) != 0 && errno == ESRCH;
  return ended || (lock >= 0 && !held && run.host == host);
}

std::vector<std::string> lines_of(const std::string& path) {
  std::istringstream text(read_small_file(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

bool is_event(const Json& line, const char* name) {
  const auto at = line.find("event");
  return at != line.end() && *at == name;
}

std::vector<std::pair<std::string, double>> values_of(const Json& line, const std::string& prefix) {
  std::vector<std::pair<std::string, double>> all;
  for (const auto& [name, value] : line.items())
    if (!is_line_key(name) && (value.is_number() || is_infinite(value)))
      all.emplace_back(prefix + name, number(value));
  return all;
}

// The event that a line of metrics.ndjson tells of, without parsing all of it; "": a step's line.
std::string_view event_of(std::string_view line) {
  constexpr std::string_view kKey = "\"event\"", kBlanks = " \t";
  for (size_t at = 0; (at = line.find(kKey, at)) != line.npos;) {
    at = line.find_first_not_of(kBlanks, at + kKey.size());
    if (at == line.npos || line[at] != ':') continue;  // a value
    const size_t begin = line.find('"', at), end = line.find('"', begin + 1);
    const bool named = begin != line.npos && end != line.npos && end > begin + 1;
    return named ? line.substr(begin + 1, end - begin - 1) : "?";
  }
  return "";
}

// Of the lines of metrics.ndjson, in their order, those that decide what write_to() sets: resumes,
// the newest evaluation, the newest step, and the first of the steps that its rate is over. To
// parse all of them would be most of the time that a list of many runs takes.
class NeededLines {
 public:
  // Always true: a line that is not whole has no effect.
  bool line(std::string_view text) {
    const std::string_view event = event_of(text);
    if (event.empty()) {
      steps_.emplace_back(text);
      if (steps_.size() > kRecent) steps_.pop_front();
    } else if (event == "evaluate") {
      evaluations_.emplace_back(text);
    } else if (event == "resume") {
      // Of the steps before it only the newest counts.
      if (!steps_.empty()) others_.push_back(std::move(steps_.back()));
      steps_.clear();
      others_.emplace_back(text);
    }
    return true;
  }
  bool has_evaluation() const { return !evaluations_.empty(); }
  void add_to(NewestValues& values) {
    while (!evaluations_.empty() && !values.line(evaluations_.back())) evaluations_.pop_back();
    for (const std::string& one : others_) values.line(one);
    while (!steps_.empty() && !values.line(steps_.front())) steps_.pop_front();
    while (steps_.size() > 1 && !values.line(steps_.back())) steps_.pop_back();
  }

 private:
  std::vector<std::string> evaluations_, others_;
  std::deque<std::string> steps_;
};

}  // namespace

std::string own_host() {
  char name[256] = "";
  if (gethostname(name, sizeof name - 1) != 0 || !*name) return "localhost";
  return name;
}

bool is_run(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path + "/run.toml", ignored) &&
         !fs::exists(path + "/MANIFEST.json", ignored);  // which a checkpoint has
}

RunRecord read_run(const std::string& path) {
  RunRecord run;
  run.path = path;
  const Json status = read_json(path + "/status.json");
  run.state = shown_state(status);
  get(status, "step", run.step);
  get(status, "steps", run.steps);
  get(status, "message", run.message);
  get(status, "checkpoint", run.checkpoint);
  // Of a run that was moved or copied, its own.
  std::error_code ignored;
  if (const fs::path own = fs::path(path) / "ckpt" / fs::path(run.checkpoint).filename();
      !run.checkpoint.empty() && fs::is_directory(own, ignored))
    run.checkpoint = own.string();
  get(status, "time", run.updated);
  const Json environment =
      read_members(newest_environment(path), {"time", "host", "process", "device", "command"});
  get(environment, "time", run.started);
  get(environment, "host", run.host);
  get(environment, "process", run.process);
  get(environment, "device", run.device);
  get(environment, "command", run.command);
  run.overrides = lines_of(path + "/overrides.txt");
  const std::vector<std::string> restarts = lines_of(path + "/" + std::string(kRestarts));
  run.restarts = static_cast<int64_t>(restarts.size());
  if (!restarts.empty())
    if (const Json newest = Json::parse(restarts.back(), nullptr, false); newest.is_object())
      get(newest, "reason", run.restarted_for);
  if (run.state == "running" && is_gone(run)) {
    run.state = "lost";
    // status.json is written behind a save: what was killed in between names an older one, which
    // may be gone, or none. Where its own is there and the newest, this is the same.
    if (std::string newest = newest_checkpoint(path); !newest.empty())
      run.checkpoint = std::move(newest);
  }
  return run;
}

void note_state(const std::string& path, const char* state) {
  Json status = read_json(path + "/status.json");
  if (!status.contains("state") || status["state"] == "done") return;
  status["state"] = state;
  status["message"] = "";
  try {
    write_whole_file(path + "/status.json",
                     status.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const CliError&) {
    return;  // the run is as it was
  }
}

std::string read_state(const std::string& path) {
  const std::string state = shown_state(read_json(path + "/status.json"));
  return state == "running" ? read_run(path).state : state;
}

void NewestValues::add_step(const Json& line) {
  constexpr double kKeep = 0.98;  // as of the progress bar
  step_ = values_of(line, "");
  get(line, "elapsed_s", seconds_);
  get(line, "step", at_);
  double time = 0;
  get(line, "time", time);
  recent_.emplace_back(time, at_);
  if (recent_.size() > kRecent) recent_.pop_front();
  const auto loss = line.find("loss");
  if (loss == line.end() || !loss->is_number()) return;
  weighted_loss_ = kKeep * weighted_loss_ + loss->get<double>();
  weight_ = kKeep * weight_ + 1;
}

bool NewestValues::line(std::string_view text) {
  const Json line = Json::parse(text, nullptr, false);
  if (!line.is_object()) return false;
  if (!line.contains("event")) {
    add_step(line);
  } else if (is_event(line, "resume")) {
    recent_.clear();
    get(line, "from_step", began_at_);
  } else if (is_event(line, "evaluate")) {
    std::string dataset = "eval";
    get(line, "dataset", dataset);
    get(line, "step", evaluated_at_);
    evaluation_ = values_of(line, dataset + "/");
  }
  return true;
}

double NewestValues::average_loss() const {
  return weight_ > 0 ? weighted_loss_ / weight_ : std::nan("");
}

void NewestValues::write_to(RunRecord& run) const {
  run.values = step_;
  run.values.insert(run.values.end(), evaluation_.begin(), evaluation_.end());
  run.seconds = seconds_;
  run.step = std::max(run.step, at_);
  run.evaluated_at = evaluated_at_;
  run.steps_per_s = 0;
  if (recent_.empty()) return;
  const auto [then, from] = recent_.front();
  const auto [now, to] = recent_.back();
  const auto rate = [](int64_t end, int64_t begin, double seconds) {
    return (static_cast<double>(end) - static_cast<double>(begin)) / seconds;
  };
  if (now > then)
    run.steps_per_s = rate(to, from, now - then);
  else if (seconds_ > 0)
    run.steps_per_s = rate(to, began_at_, seconds_);
}

std::string last_evaluation(const std::string& run) {
  constexpr size_t kMost = 32 << 20;
  return last_line_with(run + "/metrics.ndjson", "\"evaluate\"", kMost);
}

void read_values(RunRecord& run) {
  const std::string path = run.path + "/metrics.ndjson";
  NeededLines needed;
  LineReader lines(path, kNewestBytes);
  lines.read({[] {}, [&](std::string_view text) { return needed.line(text); }});
  std::error_code none;
  const bool more = fs::file_size(path, none) > kNewestBytes && !none;
  NewestValues values;
  if (more && !needed.has_evaluation()) values.line(last_evaluation(run.path));
  needed.add_to(values);
  values.write_to(run);
}

std::vector<RunRecord> read_runs(const std::vector<std::string>& paths) {
  constexpr size_t kMostThreads = 16, kRunsEach = 64;
  std::vector<RunRecord> runs(paths.size());
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < paths.size();) {
      runs[i] = read_run(paths[i]);
      read_values(runs[i]);
    }
  };
  const size_t cores = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  std::vector<std::future<void>> others;
  for (size_t n = std::min(cores, 1 + paths.size() / kRunsEach); n > 1; --n) try {
      others.push_back(std::async(std::launch::async, work));
    } catch (const std::system_error&) {
      break;  // no more threads
    }
  work();
  for (std::future<void>& other : others) other.get();
  return runs;
}

double value_of(const RunRecord& run, const std::string& name) {
  for (const auto& [key, value] : run.values)
    if (key == name) return value;
  return std::nan("");
}

std::vector<FoundRun> find_started(const std::string& folder) {
  std::error_code error;
  if (is_run(folder)) return {{fs::last_write_time(newest_environment(folder), error), folder}};
  const bool here = fs::path(folder).lexically_normal() == ".";  // paths then begin inside of it
  std::vector<FoundRun> found;
  for (auto at = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) continue;
    const std::string path = (here ? at->path().lexically_normal() : at->path()).string();
    if (!is_run(path)) continue;
    found.push_back({fs::last_write_time(newest_environment(path), ignored), path});
    at.disable_recursion_pending();
  }
  if (error)
    throw CliError(kUsage, "[cli] the runs in '" + folder + "' cannot be listed: " +
                               error.message() + "; name the folder of runs (run.out)");
  std::sort(found.begin(), found.end(), [](const FoundRun& a, const FoundRun& b) {
    return std::tie(a.started, a.path) < std::tie(b.started, b.path);
  });
  return found;
}

std::vector<std::string> find_runs(const std::string& folder) {
  std::vector<std::string> paths;
  for (auto& [time, path] : find_started(folder)) paths.push_back(std::move(path));
  return paths;
}

Json record_of(const RunRecord& run) {
  Json values = Json::object();
  for (const auto& [name, value] : run.values) values[name] = json_number(value);
  return {{"run", run.path},
          {"state", run.state},
          {"step", run.step},
          {"steps", run.steps},
          {"started", run.started},
          {"updated", run.updated},
          {"seconds", run.seconds},
          {"steps_per_s", run.steps_per_s},
          {"host", run.host},
          {"process", run.process},
          {"device", run.device},
          {"command", run.command},
          {"overrides", run.overrides},
          {"checkpoint", run.checkpoint},
          {"restarts", run.restarts},
          {"message", run.message},
          {"values", values}};
}

std::string plain(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  return text;
}

std::string time_text(double unix_seconds) {
  const auto seconds = static_cast<time_t>(unix_seconds);
  tm local{};
  char text[32] = "";
  if (unix_seconds > 0 && localtime_r(&seconds, &local))
    strftime(text, sizeof text, "%Y-%m-%d %H:%M", &local);
  return text;
}

std::string duration_text(double seconds) {
  if (seconds < 1) return strf("%.1f s", seconds);
  if (seconds < 100) return strf("%.0f s", seconds);
  if (seconds < 100 * 60) return strf("%.0f min", seconds / 60);
  if (seconds < 48 * 3600) return strf("%.1f h", seconds / 3600);
  return strf("%.1f d", seconds / 86400);
}

}  // namespace plait::cli
