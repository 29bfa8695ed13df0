#include "bindings/cli/board/board_report.hpp"

#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "bindings/cli/board/board_page.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/flat_toml.hpp"
#include "bindings/cli/runs/metrics.hpp"

namespace plait::cli {
namespace {

// A browser draws so many; runs behind them have a row in the table alone.
constexpr size_t kMostCurves = 100, kMostCharts = 24;
constexpr size_t kMostSetting = 60;  // letters: a value may be a long array

// How far a run has come, rather than what came of it.
bool is_count(const std::string& name) { return name == "samples" || name == "tokens"; }

// The loss first, then evaluations, then what else the lines have.
int rank_of(const std::string& name) {
  if (name == "loss") return 0;
  return name.find('/') != std::string::npos ? 1 : 2;
}

std::vector<Curve> curves_of_run(const std::string& run) {
  CurveReader reader(run + "/metrics.ndjson", [](const std::string& n) { return !is_count(n); });
  reader.read();
  return reader.curves();
}

std::vector<std::string> names_of_page(const std::vector<PageRun>& runs) {
  std::set<std::pair<int, std::string>> all;
  for (const PageRun& run : runs)
    for (const Curve& curve : run.curves) all.emplace(rank_of(curve.name), curve.name);
  std::vector<std::string> names;
  for (const auto& [rank, name] : all) names.push_back(name);
  return names;
}

void add_changed(std::vector<PageRun>& runs) {
  std::vector<std::string> paths;
  std::vector<PageRun*> readable;
  for (PageRun& run : runs)
    if (access((run.record.path + "/run.toml").c_str(), R_OK) == 0) {
      paths.push_back(run.record.path);
      readable.push_back(&run);
    }
  for (const ChangedKey& key : changed_keys(paths))
    for (size_t i = 0; i < readable.size(); ++i) {
      std::string value = key.values[i].empty() ? "-" : key.values[i];
      if (value.size() > kMostSetting) value = value.substr(0, kMostSetting - 3) + "...";
      readable[i]->changed.emplace_back(key.key, std::move(value));
    }
}

std::string joined_notes(const std::vector<std::string>& notes) {
  std::string all;
  for (const std::string& note : notes) all += (all.empty() ? "" : "; ") + note;
  return all;
}

}  // namespace

void check_value(const std::string& name, const std::vector<std::string>& names) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  std::string known;
  for (const std::string& one : names) known += (known.empty() ? "" : ", ") + one;
  const std::string near = nearest(name, names);
  throw CliError(kUsage, "[cli] no run has values '" + name + "'" +
                             (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                             (known.empty() ? "; none has any yet" : "; there are: " + known));
}

std::string page_of(const RunList& list, size_t most, std::vector<std::string> values, bool log) {
  const size_t n = std::min(list.runs().size(), most);
  std::vector<PageRun> runs;
  for (size_t i = 0; i < n; ++i) {
    PageRun run{list.runs()[i].name, read_run(list.runs()[i].path), {}, {}};
    read_values(run.record);
    if (i < kMostCurves) run.curves = curves_of_run(run.record.path);
    runs.push_back(std::move(run));
  }
  add_changed(runs);
  const std::vector<std::string> names = names_of_page(runs);
  for (const std::string& value : values) check_value(value, names);
  std::vector<std::string> notes;
  if (n < list.runs().size())
    notes.push_back(strf("%zu of %zu runs; --limit 0 shows all", n, list.runs().size()));
  if (n > kMostCurves) notes.push_back(strf("curves of the first %zu runs", kMostCurves));
  if (values.empty()) values = names;
  if (values.size() > kMostCharts) {
    notes.push_back(
        strf("%zu of %zu values; --value NAME shows others", kMostCharts, values.size()));
    values.resize(kMostCharts);
  }
  std::string title = "Runs in";
  for (const std::string& folder : list.folders()) title += " " + folder;
  return board_page(runs, {title, joined_notes(notes), values, log});
}

Json record_of(const BoardScreen& screen, size_t count) {
  Json record = {
      {"schema", 1}, {"count", count}, {"states", Json::object()}, {"runs", Json::array()}};
  for (const auto& [state, n] : screen.states) record["states"][state] = n;
  for (const BoardRow& row : screen.rows) {
    Json run = {{"name", row.name}};
    run.update(record_of(row.record));
    // What is not known is null.
    run["average_loss"] = row.loss == row.loss ? json_number(row.loss) : Json();
    run["seconds_left"] = row.seconds_left == row.seconds_left ? Json(row.seconds_left) : Json();
    record["runs"].push_back(std::move(run));
  }
  return record;
}

}  // namespace plait::cli
