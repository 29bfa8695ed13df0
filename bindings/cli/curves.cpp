#include "bindings/cli/curves.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "bindings/cli/context.hpp"
#include "bindings/cli/metrics.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

using Wanted = std::function<bool(const std::string&)>;
using Values = std::map<std::string, std::map<int64_t, double>>;  // by name and step

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

// A run that was resumed from a step computes those behind it again.
void drop_behind(int64_t step, Values& of) {
  for (auto& [name, points] : of) points.erase(points.upper_bound(step), points.end());
}

// What stands before the names of a line's values; nullopt: it has none.
std::optional<std::string> prefix_of(const Json& line) {
  const std::string event = text_of(line, "event", "");
  if (event.empty()) return "";
  if (event == "evaluate") return text_of(line, "dataset", "eval") + "/";
  if (event == "statistics") return text_of(line, "tensor", "") + "/";
  return std::nullopt;
}

// A line of a step, of an evaluation or of statistics; others are no values.
void add_line(const Json& line, const Wanted& wanted, Values& to) {
  if (!line.is_object()) return;
  if (const auto from = whole_of(line, "from_step"); from && text_of(line, "event", "") == "resume")
    return drop_behind(*from, to);
  const auto step = whole_of(line, "step");
  const std::optional<std::string> prefix = prefix_of(line);
  if (!step || *step < 0 || !prefix) return;
  for (const auto& [name, value] : line.items()) {
    if (is_line_key(name) || !wanted(*prefix + name)) continue;
    if (const double v = number(value); value.is_number() && std::isfinite(v))
      to[*prefix + name][*step] = v;
  }
}

std::string file_of(const std::string& run) {
  std::error_code ignored;
  if (!fs::exists(run, ignored))
    throw CliError(kUsage, "[cli] there is no run '" + run + "'; name a run directory");
  if (!fs::is_directory(run, ignored)) return run;
  const fs::path file = fs::path(run) / "metrics.ndjson";
  if (fs::exists(file, ignored)) return file;
  throw CliError(
      kUsage,
      "[cli] '" + run + "' has no metrics.ndjson; name a run directory, such as those in runs/");
}

}  // namespace

namespace {
void read_file(const std::string& path, const Wanted& wanted, Values& to) {
  std::ifstream file(path);
  if (!file) throw CliError(kEnvironment, "[cli] '" + path + "' cannot be read");
  Values values;                                     // a file has resumptions of its own
  for (std::string line; std::getline(file, line);)  // the last line may be half written
    add_line(Json::parse(line, nullptr, false), wanted, values);
  to.merge(values);
}
}  // namespace

std::vector<Curve> read_curves(const std::string& run, const Wanted& wanted, CurvesOf of) {
  Values values;
  read_file(file_of(run), wanted, values);
  std::error_code ignored;
  if (const fs::path more = fs::path(run) / "statistics.ndjson";
      of == CurvesOf::kAll && fs::exists(more, ignored))
    read_file(more, wanted, values);
  std::vector<Curve> curves;
  for (auto& [name, points] : values)
    if (!points.empty()) curves.push_back({name, {points.begin(), points.end()}});
  return curves;
}

std::vector<Curve> read_named_curves(const std::string& run,
                                     const std::vector<std::string>& names) {
  std::set<std::string> there;
  const Wanted is_named = [&](const std::string& name) {
    there.insert(name);
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  const std::vector<Curve> curves = read_curves(run, is_named, CurvesOf::kAll);
  if (there.empty())
    throw CliError(kUsage,
                   "[cli] '" + file_of(run) +
                       "' has no values yet; a run writes a line every run.log_every steps");
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
