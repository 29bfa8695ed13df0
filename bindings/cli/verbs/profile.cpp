// plait profile: where the time of a step, or of a batch of an evaluation, goes.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/launch/on_ranks.hpp"
#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/terminal/table.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {

struct ProfileArguments {
  FileArguments file;
  uint32_t steps = 3, warm_up = 1;
  size_t top = 25;
  bool evaluate = false, each = false;
  std::string dataset = "eval", trace, to;
};

// One line of a table: rows of the record that are the same but for the number of a block.
struct Row {
  std::string layer, op, shape, kernel;
  double calls = 0, seconds = 0, flops = 0, bytes = 0;
};

// "model.h3.norm" as "model.h*.norm".
std::string without_numbers(const std::string& scope) {
  std::string all;
  for (size_t i = 0; i < scope.size();) {
    size_t end = scope.find('.', i);
    if (end == std::string::npos) end = scope.size();
    std::string part = scope.substr(i, end - i);
    const size_t last = part.find_last_not_of("0123456789");
    if (last != std::string::npos && last + 1 < part.size()) part = part.substr(0, last + 1) + "*";
    all += (i ? "." : "") + part;
    i = end + 1;
  }
  return all;
}

// "(1024, 768) (768, 3072) -> (1024, 3072)": at most three operands.
std::string shape_of(const Json& row) {
  constexpr size_t kMost = 3;
  const auto list = [](const Json& shapes) {
    std::string all;
    for (size_t i = 0; i < shapes.size() && i < kMost; ++i)
      all += (i ? " " : "") + shapes[i].get<std::string>();
    return all + (shapes.size() > kMost ? strf(" +%zu", shapes.size() - kMost) : "");
  };
  return list(row.value("inputs", Json::array())) + " -> " +
         list(row.value("outputs", Json::array()));
}

// What a row is called without its layer.
std::string key_of(const Json& row) {
  return row.value("op", "") + "\n" + row.value("pass", "") + "\n" + row.value("kernel", "") +
         "\n" + shape_of(row);
}

// The name of each layer in the tables. Layers whose names differ in numbers alone are copies if
// they share more than half of their rows with the first of them: "linear1" and "linear2" of a
// model without blocks stay apart.
std::map<std::string, std::string> layer_names(const Json& ops, bool each) {
  std::map<std::string, std::set<std::string>> rows;
  std::map<std::string, std::vector<std::string>> alike;
  for (const Json& row : ops) rows[row.value("scope", "")].insert(key_of(row));
  for (const auto& [scope, keys] : rows) alike[without_numbers(scope)].push_back(scope);
  std::map<std::string, std::string> names;
  for (const auto& [name, scopes] : alike) {
    const std::set<std::string>& first = rows.at(scopes[0]);
    const bool copies = std::all_of(scopes.begin(), scopes.end(), [&](const std::string& scope) {
      const std::set<std::string>& own = rows.at(scope);
      const auto shared = std::count_if(
          own.begin(), own.end(), [&](const std::string& key) { return first.contains(key); });
      return 2 * static_cast<size_t>(shared) > own.size();
    });
    for (const std::string& scope : scopes)
      names[scope] = !each && copies && scopes.size() > 1 ? name : scope;
  }
  return names;
}

void add(Row& to, const Json& row) {
  to.calls += row.value("calls", 0.0);
  to.seconds += row.value("seconds", 0.0);
  to.flops += row.value("flops", 0.0);
  to.bytes += row.value("bytes", 0.0);
}

std::vector<Row> sorted(const std::map<std::string, Row>& rows) {
  std::vector<Row> all;
  for (const auto& [key, row] : rows) all.push_back(row);
  std::stable_sort(all.begin(), all.end(),
                   [](const Row& a, const Row& b) { return a.seconds > b.seconds; });
  return all;
}

std::string share_text(double share) { return strf("%.1f %%", 100 * share); }

// Of all runs together: calls, time of one run, shares and rates.
std::vector<std::string> figures(const Row& row, const Json& profile) {
  const double runs = std::max(1.0, profile.value("runs", 1.0)),
               all = profile.value("seconds", 0.0), peak = profile.value("peak_flops_per_s", 0.0);
  const double rate = row.seconds > 0 ? row.flops / row.seconds : 0,
               bytes = row.seconds > 0 ? row.bytes / row.seconds : 0;
  return {strf("%.0f", row.calls / runs),
          strf("%.3f", row.seconds / runs * 1e3),
          share_text(all > 0 ? row.seconds / all : 0),
          strf("%.3f", row.flops / runs * 1e-9),
          strf("%.1f", rate * 1e-9),
          peak > 0 ? share_text(rate / peak) : "",
          strf("%.1f", row.bytes / runs * 1e-6),
          strf("%.1f", bytes * 1e-9)};
}

const std::vector<std::string> kFigures = {"calls",   "ms",      "share", "GFLOP",
                                           "GFLOP/s", "of peak", "MB",    "GB/s"};

void show_rows(Terminal& t, const std::string& title, const std::vector<std::string>& names,
               const std::vector<Row>& rows, size_t top, const Json& profile) {
  const size_t shown = top == 0 ? rows.size() : std::min(top, rows.size());
  Table table("rrrrrrrr" + std::string(names.size(), 'l'));
  // Where that is too wide each row begins with what it is about.
  Table folded("l" + std::string(names.size() + kFigures.size(), 'l'));
  const auto add = [&](const std::string& label, const std::vector<std::string>& numbers,
                       const std::vector<std::string>& texts) {
    std::vector<std::string> wide = numbers, narrow{label};
    wide.insert(wide.end(), texts.begin(), texts.end());
    narrow.insert(narrow.end(), texts.begin() + (texts.size() > 1 ? 2 : 1), texts.end());
    narrow.insert(narrow.end(), numbers.begin(), numbers.end());
    table.row(wide);
    folded.row(narrow);
  };
  add("", kFigures, names);
  for (size_t i = 0; i < shown; ++i) {
    const Row& row = rows[i];
    std::vector<std::string> texts;
    for (const std::string& name : names)
      texts.push_back(name == "layer"    ? row.layer
                      : name == "op"     ? row.op
                      : name == "kernel" ? row.kernel
                                         : row.shape);
    const bool both = texts.size() > 1 && !row.layer.empty();
    add(both ? row.layer + ": " + row.op : row.op, figures(row, profile), texts);
  }
  t.paragraph(
      "\n" + t.bold(title) +
      (shown < rows.size() ? strf("  (%zu of %zu; --top 0 shows all)", shown, rows.size()) : ""));
  const std::string wide = table.text("  ");
  t.raw(fits(wide, t.columns()) ? wide : folded.fitted("  ", t.columns(), t.utf8()));
}

std::vector<Row> rows_of(const Json& profile, bool each) {
  const Json& ops = profile.at("ops");
  const auto names = layer_names(ops, each);
  std::map<std::string, Row> rows;
  for (const Json& one : ops) {
    Row row;
    row.layer = names.at(one.value("scope", ""));
    row.op = one.value("op", "") +
             (one.value("pass", "") == "forward" ? "" : " (" + one.value("pass", "") + ")");
    row.shape = shape_of(one);
    row.kernel = one.contains("collective") ? one.value("collective", "") : one.value("kernel", "");
    const std::string key = row.layer + "\n" + row.op + "\n" + row.shape + "\n" + row.kernel;
    add(rows.try_emplace(key, row).first->second, one);
  }
  return sorted(rows);
}

std::vector<Row> groups_of(const Json& profile, const char* list, const char* field, bool each) {
  const auto names = layer_names(profile.at("ops"), each);
  std::map<std::string, Row> rows;
  for (const Json& one : profile.at(list)) {
    Row row;
    const std::string name = one.value(field, "");
    const auto layer = names.find(name);
    row.layer = row.op = layer == names.end() ? name : layer->second;
    add(rows.try_emplace(row.layer, row).first->second, one);
  }
  return sorted(rows);
}

void show(Terminal& t, const Json& profile, const ProfileArguments& arguments) {
  const double seconds = profile.value("seconds", 0.0),
               kernels = profile.value("kernel_seconds", 0.0),
               runs = std::max(1.0, profile.value("runs", 1.0)),
               peak = profile.value("peak_flops_per_s", 0.0);
  const std::string what =
      arguments.evaluate ? (runs == 1 ? "batch" : "batches") : (runs == 1 ? "step" : "steps");
  t.paragraph(t.bold(strf("%.0f ", runs) + what) + (arguments.evaluate ? " of an evaluation" : "") +
              strf(" on %s (%s)%s: ", profile.value("device", "").c_str(),
                   counted(profile.value("threads", 0LL), "thread").c_str(),
                   profile.value("ranks", 1) > 1 ? ", rank 0 of several" : "") +
              seconds_text(seconds / runs) + (runs == 1 ? ", " : " each, ") +
              share_text(seconds > 0 ? kernels / seconds : 0) + " in kernels, " +
              share_text(seconds > 0 ? 1 - kernels / seconds : 0) + " outside");
  t.paragraph("launched " + profile.value("launches", "") +
              (peak > 0 ? "; peak " + scaled(peak, "FLOP/s") + " (run.peak_tflops, or the device's)"
                        : "; the device's peak is not known: run.peak_tflops tells it") +
              (runs == 1 ? "" : "; figures are the mean of one"));
  show_rows(t, "ops", {"layer", "op", "kernel", "shape"}, rows_of(profile, arguments.each),
            arguments.top, profile);
  show_rows(t, "by op", {"op"}, groups_of(profile, "by_op", "op", true), 0, profile);
  show_rows(t, "by layer", {"layer"}, groups_of(profile, "by_layer", "layer", arguments.each),
            arguments.top, profile);
}

int measure(Context& context, const ProfileArguments& arguments, const Plan& plan,
            const RankInfo& own) {
  SessionSettings settings;
  settings.no_files = true;
  settings.resume = PLAIT_RESUME_NEVER;
  Session session = context.open_session(plan, settings);
  report_connected();
  ProfileRequest request;
  if (arguments.evaluate) request.entry_point = "evaluate";
  request.dataset = arguments.dataset;
  request.runs = arguments.steps;
  request.warm_up = arguments.warm_up;
  request.trace = !arguments.trace.empty();
  const ProfileTexts texts = session.profile(request);
  if (own.rank != 0) return kOk;
  Terminal& t = context.terminal;
  const bool trace_printed = request.trace && print_or_write(t, arguments.trace, texts.trace);
  const bool table_printed =
      !arguments.to.empty() && print_or_write(t, arguments.to, texts.table + "\n");
  if (trace_printed || table_printed) return kOk;
  const Json profile = Json::parse(texts.table);
  t.record(profile);
  if (!t.human()) return kOk;
  show(t, profile, arguments);
  if (!arguments.to.empty())
    t.line("\nthe profile is in " + arguments.to +
           (arguments.evaluate ? ""
                               : "; `plait plan FILE --measured " + arguments.to +
                                     "` predicts other layouts by it"));
  if (request.trace)
    t.line("\nthe trace is in " + arguments.trace +
           ": open it in chrome://tracing or ui.perfetto.dev");
  return kOk;
}

int profile(Context& context, const ProfileArguments& arguments) {
  RankedCommand command;
  command.inspect = [&](const Experiment&) {
    check_output(context, "profile", "--trace", arguments.trace);
    check_output(context, "profile", "--to", arguments.to);
    if (arguments.trace == "-" && arguments.to == "-")
      throw both_print("profile", "--trace -", "--to -");
  };
  command.work = [&](const Plan& plan, const RankInfo& own) {
    return measure(context, arguments, plan, own);
  };
  return on_ranks(context, arguments.file, command);
}

}  // namespace

void add_profile(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "profile", "measures the kernels of some steps of FILE, with overrides key=value...");
  const auto arguments = std::make_shared<ProfileArguments>();
  add_file(*verb, arguments->file);
  verb->add_option("--steps", arguments->steps, "steps or batches to measure; default 3")
      ->type_name("N")
      ->check(CLI::Range(1, 100000));
  verb->add_option("--warm-up", arguments->warm_up, "steps or batches before them; default 1")
      ->type_name("N")
      ->check(CLI::Range(0, 100000));
  verb->add_flag("--eval", arguments->evaluate, "batches of an evaluation, in place of steps");
  verb->add_option("--dataset", arguments->dataset,
                   "with --eval: batches of [data.NAME]; default: eval")
      ->type_name("NAME");
  verb->add_option("--top", arguments->top, "rows of a table; 0: all; default 25")->type_name("N");
  verb->add_flag("--each", arguments->each, "a row for each copy of a repeated block");
  verb->add_option("--trace", arguments->trace,
                   "writes every call, of all ranks, as JSON for Chrome's trace viewer; -: to "
                   "standard output, in place of text")
      ->type_name("FILE");
  verb->add_option("--to", arguments->to,
                   "writes the figures of all ranks as JSON, for `plait plan --measured`; -: to "
                   "standard output, in place of text")
      ->type_name("FILE");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return profile(context, *arguments); };
  });
}

}  // namespace plait::cli
