#include "bindings/cli/run_record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bindings/cli/context.hpp"
#include "bindings/cli/metrics.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

// The content of a regular file; "" where it cannot be read, or is longer than such a file is.
std::string read_text(const std::string& path) {
  constexpr std::uintmax_t kMost = 1 << 20;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored) || fs::file_size(path, ignored) > kMost) return "";
  std::ifstream file(path, std::ios::binary);
  std::string text(kMost, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// An object, which is empty where the file is absent or damaged.
Json read_json(const std::string& path) {
  Json json = Json::parse(read_text(path), nullptr, false);
  if (!json.is_object()) json = Json::object();
  return json;
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

// A resumed run adds env-2.json, env-3.json, ….
std::string newest_environment(const std::string& run) {
  std::string path = run + "/env.json", next;
  std::error_code ignored;
  for (int n = 2; fs::exists(next = strf("%s/env-%d.json", run.c_str(), n), ignored); ++n)
    path = next;
  return path;
}

std::string own_host() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return name;
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
  std::istringstream text(read_text(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) lines.push_back(line);
  return lines;
}

// The whole lines among the last `most` bytes of a file, as objects; `all`: they are all of it.
std::vector<Json> last_lines(const std::string& path, std::streamoff most, bool& all) {
  all = true;
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return {};
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff size = file.tellg(), from = std::max<std::streamoff>(0, size - most);
  all = from == 0;
  file.seekg(from);
  std::vector<Json> lines;
  std::string line;
  if (from > 0) std::getline(file, line);  // it begins in the middle
  while (std::getline(file, line))
    if (Json json = Json::parse(line, nullptr, false); json.is_object())
      lines.push_back(std::move(json));
  return lines;
}

bool is_event(const Json& line, const char* name) {
  const auto at = line.find("event");
  return at != line.end() && *at == name;
}

// Enough of the end to hold an evaluation, if there is one.
std::vector<Json> newest_lines(const std::string& path) {
  bool all = false;
  for (std::streamoff most = 1 << 16;; most *= 8) {
    std::vector<Json> lines = last_lines(path, most, all);
    if (all || std::any_of(lines.begin(), lines.end(),
                           [](const Json& line) { return is_event(line, "evaluate"); }))
      return lines;
  }
}

void add_values(const Json& line, const std::string& prefix, RunRecord& to) {
  for (const auto& [name, value] : line.items()) {
    if (is_line_key(name)) continue;
    if (value.is_number() || value == "inf" || value == "-inf" || value == "nan")
      to.values.emplace_back(prefix + name, number(value));
  }
}

}  // namespace

bool is_run(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path + "/run.toml", ignored) &&
         !fs::exists(path + "/MANIFEST.json", ignored);  // which a checkpoint has
}

RunRecord read_run(const std::string& path) {
  RunRecord run;
  run.path = path;
  const Json status = read_json(path + "/status.json");
  get(status, "state", run.state);
  get(status, "step", run.step);
  get(status, "steps", run.steps);
  get(status, "message", run.message);
  get(status, "checkpoint", run.checkpoint);
  get(status, "time", run.updated);
  const Json environment = read_json(newest_environment(path));
  get(environment, "time", run.started);
  get(environment, "host", run.host);
  get(environment, "process", run.process);
  get(environment, "device", run.device);
  get(environment, "command", run.command);
  run.overrides = lines_of(path + "/overrides.txt");
  if (run.state == "running" && is_gone(run)) run.state = "lost";
  return run;
}

void read_values(RunRecord& run) {
  const std::vector<Json> lines = newest_lines(run.path + "/metrics.ndjson");
  const Json *step = nullptr, *first = nullptr, *evaluation = nullptr;
  for (const Json& line : lines) {
    if (!line.contains("event")) {
      step = &line;
      if (!first) first = &line;
    } else if (is_event(line, "resume")) {
      first = nullptr;
    } else if (is_event(line, "evaluate")) {
      evaluation = &line;
    }
  }
  run.values.clear();
  if (step) {
    add_values(*step, "", run);
    get(*step, "elapsed_s", run.seconds);
    int64_t at = 0;
    get(*step, "step", at);
    run.step = std::max(run.step, at);
  }
  if (step && first) {
    double then = 0, now = 0;
    int64_t from = 0, to = 0;
    get(*first, "time", then);
    get(*step, "time", now);
    get(*first, "step", from);
    get(*step, "step", to);
    if (now > then)
      run.steps_per_s = (static_cast<double>(to) - static_cast<double>(from)) / (now - then);
  }
  if (evaluation) {
    std::string dataset = "eval";
    get(*evaluation, "dataset", dataset);
    get(*evaluation, "step", run.evaluated_at);
    add_values(*evaluation, dataset + "/", run);
  }
}

double value_of(const RunRecord& run, const std::string& name) {
  for (const auto& [key, value] : run.values)
    if (key == name) return value;
  return std::nan("");
}

std::vector<std::string> find_runs(const std::string& folder) {
  if (is_run(folder)) return {folder};
  std::error_code error;
  std::vector<std::pair<fs::file_time_type, std::string>> found;
  for (auto at = fs::recursive_directory_iterator(
           folder, fs::directory_options::skip_permission_denied, error);
       !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    std::error_code ignored;
    if (!at->is_directory(ignored)) continue;
    const std::string path = at->path().string();
    if (!is_run(path)) continue;
    found.emplace_back(fs::last_write_time(newest_environment(path), ignored), path);
    at.disable_recursion_pending();
  }
  if (error)
    throw CliError(kUsage, "[cli] the runs in '" + folder + "' cannot be listed: " +
                               error.message() + "; name the folder of runs (run.out)");
  std::sort(found.begin(), found.end());
  std::vector<std::string> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
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
