#include "bindings/cli/runs/run_watch.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <system_error>

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

// The earliest time for a file that is absent.
fs::file_time_type written(const std::string& file) {
  std::error_code error;
  const fs::file_time_type time = fs::last_write_time(file, error);
  return error ? fs::file_time_type::min() : time;
}

// "mnist/1" of runs/mnist/1 below runs; its own name if the folder is the run.
std::string name_below(const std::string& folder, const std::string& path) {
  std::string name = fs::path(path).lexically_relative(folder).string();
  if (!name.empty() && name != ".") return name;
  const fs::path own = fs::path(path).lexically_normal();
  const fs::path last = own.has_filename() ? own.filename() : own.parent_path().filename();
  return last.empty() || last == "." ? path : last.string();
}

// One text for each folder, however it was typed.
std::string same_for(const std::string& path) {
  const fs::path normal = fs::path(path).lexically_normal();
  return (normal.has_filename() ? normal : normal.parent_path()).string();
}

}  // namespace

std::string RunList::state_of(const std::string& path) {
  const fs::file_time_type time = written(path + "/status.json");
  const auto known = known_.find(path);
  // One that runs can end without writing so.
  if (known != known_.end() && known->second.written == time && known->second.state != "running")
    return known->second.state;
  std::string state = read_state(path);
  known_[path] = {time, state};
  return state;
}

void RunList::scan() {
  std::vector<std::pair<FoundRun, std::string>> found;  // with the name
  std::set<std::string> seen;
  for (const std::string& folder : folders_)
    for (FoundRun& run : find_started(folder)) {
      if (!seen.insert(same_for(run.path)).second) continue;
      std::string name = folders_.size() == 1 ? name_below(folder, run.path) : run.path;
      found.emplace_back(std::move(run), std::move(name));
    }
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first.started > b.first.started; });
  std::vector<Run> runs;
  for (auto& [run, name] : found) runs.push_back({run.path, std::move(name), state_of(run.path)});
  std::stable_partition(runs.begin(), runs.end(),
                        [](const Run& run) { return run.state == "running"; });
  runs_ = std::move(runs);
  std::erase_if(known_, [&](const auto& of) { return !seen.contains(same_for(of.first)); });
}

size_t RunList::count(const std::string& state) const {
  return static_cast<size_t>(
      std::count_if(runs_.begin(), runs_.end(), [&](const Run& r) { return r.state == state; }));
}

WatchedRun::WatchedRun(const std::string& path) : lines_(path + "/metrics.ndjson", kNewestBytes) {
  record_.path = path;
  values_.line(last_evaluation(path));
}

void WatchedRun::update() {
  const std::string path = record_.path;
  const fs::file_time_type now = written(path + "/status.json");
  if (now != written_ || record_.state == "running") record_ = read_run(path);
  written_ = now;
  lines_.read(
      {[this] { values_ = {}; }, [this](std::string_view text) { return values_.line(text); }});
  values_.write_to(record_);
}

double WatchedRun::seconds_left() const {
  if (record_.state != "running" || record_.steps <= record_.step || record_.steps_per_s <= 0)
    return std::nan("");
  return (static_cast<double>(record_.steps) - static_cast<double>(record_.step)) /
         record_.steps_per_s;
}

}  // namespace plait::cli
