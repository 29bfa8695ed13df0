// plait compare: in what runs differ, and what came of it.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "bindings/cli/chart/chart.hpp"
#include "bindings/cli/chart/curves.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/flat_toml.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {
namespace fs = std::filesystem;

bool is_shown(const std::string& name) {
  return name == "loss" || name == "mean_loss" || name == "samples_per_s" ||
         name == "tokens_per_s" || name.find('/') != std::string::npos;
}

using OfRuns = std::vector<std::vector<Curve>>;

const Curve* find(const std::vector<Curve>& curves, const std::string& name) {
  for (const Curve& c : curves)
    if (c.name == name) return &c;
  return nullptr;
}

std::vector<std::string> names_of(const OfRuns& curves) {
  std::set<std::string> names;
  for (const auto& of_run : curves)
    for (const Curve& c : of_run) names.insert(c.name);
  return {names.begin(), names.end()};
}

// "A", "B", …: a table has no room for paths.
std::string letter(size_t i) {
  return i < 26 ? std::string(1, static_cast<char>('A' + i)) : strf("%zu", i + 1);
}

std::string step_text(const RunRecord& run) {
  return strf("%lld/%lld", static_cast<long long>(run.step), static_cast<long long>(run.steps));
}

void show_runs(Terminal& t, const std::vector<RunRecord>& runs) {
  Table table("lllrl");
  table.row({"", "run", "state", "step", "started"});
  for (size_t i = 0; i < runs.size(); ++i)
    table.row(
        {letter(i), runs[i].path, runs[i].state, step_text(runs[i]), time_text(runs[i].started)});
  const std::string wide = table.text();
  if (fits(wide, t.columns())) return t.raw(wide);
  Table narrow("llrl");  // the letter stands with its run
  narrow.row({"", "state", "step", "started"});
  for (size_t i = 0; i < runs.size(); ++i)
    narrow.row({letter(i) + "  " + runs[i].path, runs[i].state, step_text(runs[i]),
                time_text(runs[i].started)});
  t.raw(narrow.fitted("", t.columns(), t.utf8()));
}

std::vector<std::string> head(const char* first, size_t runs) {
  std::vector<std::string> row{first};
  for (size_t i = 0; i < runs; ++i) row.push_back(letter(i));
  return row;
}

// A value may be a long array, or a text of several lines.
std::string cell(const std::string& value) {
  constexpr size_t kMost = 40;
  std::string text = plain(value);
  if (text.size() > kMost) text = text.substr(0, kMost - 3) + "...";
  return text;
}

void show_keys(Terminal& t, const std::vector<ChangedKey>& keys, size_t runs) {
  if (keys.empty()) return t.line("\nno key of the experiments differs");
  Table table(std::string(runs + 1, 'l'));
  table.row(head("key", runs));
  for (const ChangedKey& k : keys) {
    std::vector<std::string> row{k.key};
    for (const std::string& value : k.values) row.push_back(value.empty() ? "-" : cell(value));
    table.row(std::move(row));
  }
  t.line("");
  t.raw(table.fitted("", t.columns(), t.utf8()));
}

// Last, lowest and highest.
std::vector<std::string> figures_text(const std::vector<Curve>& curves, const std::string& name) {
  const Curve* c = find(curves, name);
  if (!c) return {"-", "-", "-"};
  const Figures f = figures_of(*c);
  return {value_text(name, f.last.second), value_text(name, f.lowest.second),
          value_text(name, f.highest.second)};
}

// A line for each run below the name of the value.
void show_narrow_values(Terminal& t, const OfRuns& curves) {
  for (const std::string& name : names_of(curves)) {
    Table table("lrrr");
    for (size_t i = 0; i < curves.size(); ++i) {
      std::vector<std::string> row{letter(i)};
      for (std::string& text : figures_text(curves[i], name)) row.push_back(std::move(text));
      table.row(std::move(row));
    }
    t.line(name);
    t.raw(table.text("  "));
  }
}

void show_values(Terminal& t, const OfRuns& curves) {
  Table table("l" + std::string(curves.size() * 3, 'r'));
  std::vector<std::string> titles{""};
  for (size_t i = 0; i < curves.size(); ++i) titles.insert(titles.end(), {letter(i), "", ""});
  table.row(titles);
  for (const std::string& name : names_of(curves)) {
    std::vector<std::string> row{name};
    for (const auto& of_run : curves)
      for (std::string& text : figures_text(of_run, name)) row.push_back(std::move(text));
    table.row(std::move(row));
  }
  t.line("\nlast, lowest, highest");
  const std::string wide = table.text();
  if (fits(wide, t.columns())) return t.raw(wide);
  show_narrow_values(t, curves);
}

void draw(Terminal& t, const OfRuns& curves) {
  if (t.columns() == 0) return;
  std::vector<Curve> losses;
  for (size_t i = 0; i < curves.size(); ++i)
    if (const Curve* loss = find(curves[i], "loss")) losses.push_back({letter(i), loss->points});
  if (losses.empty()) return;
  ChartOptions options = chart_options(t);
  options.rows = 10;
  t.line("\nloss");
  t.raw(chart_text(losses, options));
}

// None of a run that has not come to its first line.
std::vector<Curve> curves_of(const std::string& run) {
  try {
    return read_curves(run, is_shown);
  } catch (const CliError&) {
    return {};
  }
}

// The runs that are named, or lie below folders that are named. What else a shell's * finds beside
// runs, such as sweep.json, is left out. Errors: CliError (kUsage) without two runs.
std::vector<std::string> runs_of(Terminal& t, const std::vector<std::string>& given) {
  constexpr size_t kMost = 64;  // columns of a table
  std::vector<std::string> runs;
  std::string others;
  for (const std::string& path : given) {
    std::error_code ignored;
    const std::vector<std::string> below =
        fs::is_directory(path, ignored) ? find_runs(path) : std::vector<std::string>();
    if (!fs::exists(path, ignored))
      throw CliError(kUsage, "[cli] '" + path + "' is no run directory; plait runs lists runs");
    if (below.empty()) others += (others.empty() ? "" : ", ") + path;
    for (const std::string& run : below)
      if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
  }
  if (runs.size() < 2)
    throw CliError(
        kUsage, runs.empty() ? "[cli] there is no run in " + others + "; plait runs lists runs"
                             : "[cli] name two runs or more, or a folder of runs; one was given: " +
                                   runs[0] + (others.empty() ? "" : " (no runs: " + others + ")"));
  if (runs.size() > kMost)
    throw CliError(kUsage, strf("[cli] %zu runs are more than the %zu that plait compare shows; "
                                "name some of them, or use plait runs",
                                runs.size(), kMost));
  if (!others.empty()) t.note("no runs, left out: " + others);
  return runs;
}

int compare(Context& context, const std::vector<std::string>& given) {
  const std::vector<std::string> paths = runs_of(context.terminal, given);
  std::vector<RunRecord> runs;
  OfRuns curves;
  Json record = {{"schema", 1}, {"runs", Json::array()}, {"changed", Json::object()}};
  for (const std::string& path : paths) {
    runs.push_back(read_run(path));
    read_values(runs.back());
    record["runs"].push_back(record_of(runs.back()));
    curves.push_back(curves_of(path));
  }
  const std::vector<ChangedKey> keys = changed_keys(paths);
  for (const ChangedKey& k : keys) record["changed"][k.key] = k.values;
  record["values"] = Json::object();
  for (const std::string& name : names_of(curves))
    for (const auto& of_run : curves) {
      const Curve* c = find(of_run, name);
      const Figures f = c ? figures_of(*c) : Figures();
      record["values"][name].push_back(c ? Json{{"last", f.last.second},
                                                {"lowest", f.lowest.second},
                                                {"highest", f.highest.second}}
                                         : Json());
    }
  Terminal& t = context.terminal;
  t.record(record);
  if (!t.human()) return kOk;
  show_runs(t, runs);
  show_keys(t, keys, runs.size());
  show_values(t, curves);
  draw(t, curves);
  return kOk;
}

}  // namespace

void add_compare(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("compare", "shows the keys in which runs differ, their values and losses");
  const auto paths = std::make_shared<std::vector<std::string>>();
  verb->add_option("RUN", *paths, "two run directories or more, or folders of runs")
      ->required()
      ->type_name("DIR");
  verb->callback([&context, paths] {
    context.run_command = [&context, paths] { return compare(context, *paths); };
  });
}

}  // namespace plait::cli
