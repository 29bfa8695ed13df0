// plait runs: the runs of a folder as a table.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/runs/run_record.hpp"
#include "bindings/cli/terminal/fitted_columns.hpp"

namespace plait::cli {
namespace {

struct RunsArguments {
  std::string folder = "runs", sort;
  std::vector<std::string> values;
  int limit = 20;
  bool descending = false;
};

// The training loss as a sweep and the board show it, the evaluation's, and another figure of it:
// what a table has room for.
std::vector<std::string> shown_values(const std::vector<RunRecord>& runs) {
  std::vector<std::string> names{"mean_loss"};
  for (const RunRecord& run : runs)
    for (const auto& [name, value] : run.values)
      if (name.find('/') != std::string::npos && names.size() < 3 &&
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

// Statistics are hundreds.
std::string first_of(const std::set<std::string>& names) {
  constexpr size_t kMost = 20;
  std::vector<std::string> some;
  for (const std::string& name : names)
    if (some.size() < kMost) some.push_back(name);
  const size_t more = names.size() - some.size();
  return joined(some, ", ") + (more > 0 ? " and " + std::to_string(more) + " more" : "");
}

void check_name(const std::string& name, const std::vector<RunRecord>& runs) {
  std::set<std::string> there;
  for (const RunRecord& run : runs)
    for (const auto& [key, value] : run.values) there.insert(key);
  if (there.contains(name) || runs.empty()) return;
  const std::string near = nearest(name, there);
  throw CliError(kUsage, "[cli] no run has a value '" + name + "'" +
                             (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                             (there.empty() ? "" : "; there are: " + first_of(there)));
}

// Runs without the value come last.
void sort_by(const std::string& name, bool descending, std::vector<RunRecord>& runs) {
  const auto key = [&](const RunRecord& run) {
    const double v = value_of(run, name);
    return std::isnan(v) ? HUGE_VAL : descending ? -v : v;
  };
  std::stable_sort(runs.begin(), runs.end(),
                   [&](const RunRecord& a, const RunRecord& b) { return key(a) < key(b); });
}

// On a terminal in lines that fit it.
void show(Terminal& t, const std::vector<RunRecord>& runs, const std::vector<std::string>& values) {
  constexpr int kUnlimited = 1 << 20;
  std::vector<FittedColumn> columns = {{"run", false, 9}, {"state", false, 8}, {"step", true, 6}};
  for (const std::string& name : values)
    columns.push_back({name, true, name == "mean_loss" ? 7 : 5});
  columns.insert(columns.end(),
                 {{"started", false, 3}, {"time", true, 2}, {"changed", false, kRestColumn}});
  for (const RunRecord& run : runs) {
    std::vector<std::string> row{
        run.path, run.state,
        strf("%lld/%lld", static_cast<long long>(run.step), static_cast<long long>(run.steps))};
    for (const std::string& name : values) {
      const bool there = std::any_of(run.values.begin(), run.values.end(),
                                     [&](const auto& v) { return v.first == name; });
      row.push_back(there ? value_text(name, value_of(run, name)) : "");
    }
    std::string changed;
    for (const std::string& one : run.overrides)
      changed += (changed.empty() ? "" : " ") + plain(one);
    row.insert(row.end(), {time_text(run.started),
                           run.seconds > 0 ? duration_text(run.seconds) : "", changed});
    for (size_t i = 0; i < row.size(); ++i) columns[i].cells.push_back(std::move(row[i]));
  }
  const bool any = t.columns() == 0;  // no terminal: names are written as they are
  const int room = any ? kUnlimited : t.columns();
  std::vector<FittedColumn> cut = columns;
  fit_columns(columns, room, any || t.utf8(), Names::kWhole);
  // Whole names can be copied, but alone they tell too little.
  if (columns.size() == 1) {
    fit_columns(cut, room, any || t.utf8());
    columns = std::move(cut);
  }
  t.raw(text_of(columns, any || t.utf8()));
}

int runs(Context& context, const RunsArguments& arguments) {
  std::vector<std::string> paths = find_runs(arguments.folder);
  std::reverse(paths.begin(), paths.end());
  const size_t all = paths.size(),
               most = arguments.limit > 0 ? static_cast<size_t>(arguments.limit) : all;
  // An order by a value needs the values of all.
  if (arguments.sort.empty() && paths.size() > most) paths.resize(most);
  std::vector<RunRecord> found = read_runs(paths);
  for (const std::string& name : arguments.values) check_name(name, found);
  if (!arguments.sort.empty()) {
    check_name(arguments.sort, found);
    sort_by(arguments.sort, arguments.descending, found);
    if (found.size() > most) found.resize(most);
  }
  Terminal& t = context.terminal;
  if (!t.human()) {
    Json records = Json::array();
    for (const RunRecord& run : found) records.push_back(record_of(run));
    t.record({{"schema", 1}, {"count", all}, {"runs", std::move(records)}});
    return kOk;
  }
  if (found.empty()) {
    t.line("there are no runs in " + arguments.folder + "; plait run FILE makes one");
    return kOk;
  }
  show(t, found, arguments.values.empty() ? shown_values(found) : arguments.values);
  if (found.size() < all) t.line(strf("%zu of %zu runs; --limit 0 shows all", found.size(), all));
  return kOk;
}

}  // namespace

void add_runs(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("runs", "lists runs, the newest first");
  const auto arguments = std::make_shared<RunsArguments>();
  verb->add_option("DIR", arguments->folder, "folder of runs; default: runs")->type_name("DIR");
  verb->add_option("--sort", arguments->sort,
                   "sorts by this value, the lowest first: loss, eval/loss and others")
      ->type_name("NAME");
  verb->add_flag("--descending", arguments->descending, "with --sort: the highest first");
  verb->add_option("--value", arguments->values, "a value to show; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb->add_option("--limit", arguments->limit, "runs to show; 0: all; default 20")
      ->type_name("N")
      ->check(whole_number(0));
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return runs(context, *arguments); };
  });
}

}  // namespace plait::cli
