#include "bindings/cli/chart/curves.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

// A member of the line if it has that type, else `otherwise`.
std::string text_of(const Json& line, const char* name, const char* otherwise) {
  const auto at = line.find(name);
  return at != line.end() && at->is_string() ? at->get<std::string>() : otherwise;
}
std::optional<int64_t> whole_of(const Json& line, const char* name) {
  const auto at = line.find(name);
  if (at == line.end() || !at->is_number_integer()) return std::nullopt;
  return at->get<int64_t>();
}

// What stands before the names of a line's values; nullopt: it has none.
std::optional<std::string> prefix_of(const Json& line) {
  const std::string event = text_of(line, "event", "");
  if (event.empty()) return "";
  if (event == "evaluate") return text_of(line, "dataset", "eval") + "/";
  if (event == "statistics") return text_of(line, "tensor", "") + "/";
  return std::nullopt;
}

// Points are ascending by step; a step that comes again replaces what it was.
void put(int64_t step, double value, std::vector<std::pair<int64_t, double>>& to) {
  if (to.empty() || to.back().first < step) return void(to.emplace_back(step, value));
  const auto at = std::lower_bound(to.begin(), to.end(), step,
                                   [](const auto& point, int64_t s) { return point.first < s; });
  if (at->first == step)
    at->second = value;
  else
    to.emplace(at, step, value);
}

std::string file_of(const std::string& run) {
  std::error_code ignored;
  if (!fs::exists(run, ignored))
    throw CliError(kUsage, "[cli] there is no run '" + run + "'; name a run directory");
  if (!fs::is_directory(run, ignored)) return run;
  const fs::path file = fs::path(run) / "metrics.ndjson";
  if (fs::exists(file, ignored)) return file;
  const std::vector<std::string> inside = find_runs(run);
  throw CliError(kUsage, "[cli] '" + run + "' has no metrics.ndjson; name " +
                             (inside.empty() ? "a run directory, such as those in runs/"
                                             : "one of the runs in it, such as the newest: " +
                                                   path_word(inside.back())));
}

}  // namespace

Figures figures_of(const Curve& curve) {
  const auto lower = [](const auto& a, const auto& b) { return a.second < b.second; };
  const auto& points = curve.points;
  return {points.back(), *std::min_element(points.begin(), points.end(), lower),
          *std::max_element(points.begin(), points.end(), lower)};
}

CurveReader::CurveReader(std::string file, Wanted wanted)
    : lines_(std::move(file)), wanted_(std::move(wanted)) {}

// A run that was resumed from a step computes those behind it again.
void CurveReader::drop_behind(int64_t step) {
  for (auto& [name, points] : values_) {
    const auto behind =
        std::upper_bound(points.begin(), points.end(), step,
                         [](int64_t s, const auto& point) { return s < point.first; });
    points.erase(behind, points.end());
  }
}

// A line of a step, of an evaluation or of statistics; others are no values.
void CurveReader::add(const Json& line) {
  if (const auto from = whole_of(line, "from_step"); from && text_of(line, "event", "") == "resume")
    return drop_behind(*from);
  const auto step = whole_of(line, "step");
  const std::optional<std::string> prefix = prefix_of(line);
  if (!step || *step < 0 || !prefix) return;
  for (const auto& [name, value] : line.items()) {
    if (is_line_key(name) || !(value.is_number() || is_infinite(value))) continue;
    const std::string whole = *prefix + name;
    names_.insert(whole);
    if (!wanted_(whole)) continue;
    if (const double v = number(value); std::isfinite(v)) put(*step, v, values_[whole]);
  }
}

bool CurveReader::line(std::string_view text) {
  const Json json = Json::parse(text, nullptr, false);
  if (json.is_object()) add(json);
  return json.is_object();
}

bool CurveReader::read(size_t most) {
  const auto restarted = [this] {
    values_.clear();
    names_.clear();
  };
  return lines_.read({restarted, [this](std::string_view text) { return line(text); }}, most);
}

std::vector<Curve> CurveReader::curves() const {
  std::vector<Curve> all;
  for (const auto& [name, points] : values_)
    if (!points.empty()) all.push_back({name, points});
  return all;
}

namespace {

// With the names of all values.
std::pair<std::vector<Curve>, std::set<std::string>> read_all(const std::string& path,
                                                              const CurveReader::Wanted& wanted) {
  if (access(path.c_str(), R_OK) != 0)
    throw CliError(kEnvironment, "[cli] '" + path + "' cannot be read: " + std::strerror(errno));
  CurveReader reader(path, wanted);
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    reader.read();
  } else {  // a pipe
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) reader.line(line);
  }
  return {reader.curves(), reader.names()};
}

}  // namespace

std::vector<Curve> read_curves(const std::string& run, const CurveReader::Wanted& wanted) {
  return read_all(file_of(run), wanted).first;
}

std::vector<Curve> read_named_curves(const std::string& run,
                                     const std::vector<std::string>& names) {
  const std::string path = file_of(run);
  const auto is_named = [&](const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  auto [curves, there] = read_all(path, is_named);
  std::error_code ignored;
  if (const fs::path more = fs::path(run) / "statistics.ndjson"; fs::exists(more, ignored)) {
    auto [others, other_names] = read_all(more, is_named);
    curves.insert(curves.end(), others.begin(), others.end());
    there.merge(other_names);
  }
  if (there.empty())
    throw CliError(
        kUsage,
        "[cli] '" + path + "' has no values yet; a run writes a line every run.log_every steps");
  std::vector<Curve> all;
  for (const std::string& name : names) {
    const auto at =
        std::find_if(curves.begin(), curves.end(), [&](const Curve& c) { return c.name == name; });
    if (at != curves.end()) {
      all.push_back(*at);
      continue;
    }
    constexpr size_t kListed = 40;
    std::string known;
    size_t listed = 0;
    for (const std::string& n : there)
      if (listed++ < kListed) known += (known.empty() ? "" : ", ") + n;
    if (there.size() > kListed) known += strf(" and %zu more", there.size() - kListed);
    const std::string near = nearest(name, there);
    throw CliError(kUsage, "[cli] run '" + run + "' has no values '" + name + "'" +
                               (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                               "; there are: " + known);
  }
  return all;
}

}  // namespace plait::cli
