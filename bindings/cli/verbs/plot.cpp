// plait plot: the curves of runs, on the terminal or as a picture.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/chart/chart.hpp"
#include "bindings/cli/chart/curves.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/whole_file.hpp"

namespace plait::cli {
namespace {

struct PlotArguments {
  std::vector<std::string> runs, values;
  std::string svg;
  bool log = false;
  int columns = 0, rows = 0;
};

// The folder of a run; as typed, where two have the same name.
std::string name_of_run(const PlotArguments& arguments, const std::string& run) {
  const auto name = [](const std::string& path) {
    std::filesystem::path p = std::filesystem::path(path).lexically_normal();
    if (p.filename() == "metrics.ndjson" || !p.has_filename()) p = p.parent_path();
    return p.filename().string();
  };
  const std::string own = name(run);
  const bool alone = std::count_if(arguments.runs.begin(), arguments.runs.end(),
                                   [&](const std::string& r) { return name(r) == own; }) == 1;
  return alone && !own.empty() ? own : run;
}

// "loss", with the run where there are several, and the other way round.
std::string name_of(const PlotArguments& arguments, const std::string& run,
                    const std::string& value) {
  if (arguments.runs.size() == 1) return value;
  const std::string name = name_of_run(arguments, run);
  return arguments.values.size() == 1 ? name : name + " " + value;
}

std::string title_of(const PlotArguments& arguments) {
  std::string title;
  for (const std::string& value : arguments.values) title += (title.empty() ? "" : ", ") + value;
  return arguments.runs.size() == 1 ? arguments.runs[0] + ": " + title : title;
}

ChartOptions options_of(const Terminal& terminal, const PlotArguments& arguments) {
  ChartOptions options = chart_options(terminal);
  if (arguments.columns > 0) options.columns = arguments.columns;
  if (arguments.rows > 0) options.rows = arguments.rows;
  --options.rows;  // the title's
  options.log = arguments.log;
  return options;
}

int plot(Context& context, PlotArguments arguments) {
  check_svg_name("--svg", arguments.svg);
  check_output(context, "plot", "--svg", arguments.svg);
  if (arguments.values.empty()) arguments.values = {"loss"};
  std::vector<Curve> curves;
  Json record = {{"schema", 1}, {"curves", Json::array()}};
  for (const std::string& run : arguments.runs) {
    for (Curve& curve : read_named_curves(run, arguments.values)) {
      record["curves"].push_back({{"run", run}, {"value", curve.name}, {"points", curve.points}});
      curve.name = name_of(arguments, run, curve.name);
      curves.push_back(std::move(curve));
    }
  }
  const bool drawn = std::any_of(curves.begin(), curves.end(), [&](const Curve& c) {
    return std::any_of(c.points.begin(), c.points.end(),
                       [&](const auto& p) { return !arguments.log || p.second > 0; });
  });
  if (!drawn)
    throw CliError(kUsage,
                   "[cli] no value is above 0, so a logarithmic axis shows none; omit --log");
  const std::string title = title_of(arguments);
  const std::string svg = arguments.svg.empty() ? "" : chart_svg(curves, {title, arguments.log});
  if (!arguments.svg.empty() && print_or_write(context.terminal, arguments.svg, svg)) return kOk;
  context.terminal.record(record);
  if (!arguments.svg.empty()) {
    context.terminal.note("wrote " + arguments.svg);
    return kOk;
  }
  if (context.terminal.json) return kOk;
  context.terminal.line(title);
  if (curves.size() == 1) curves[0].name.clear();  // the title says it
  context.terminal.raw(chart_text(curves, options_of(context.terminal, arguments)));
  return kOk;
}

}  // namespace

void add_plot(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("plot", "draws the loss, or other values, of runs");
  const auto arguments = std::make_shared<PlotArguments>();
  verb->add_option("RUN", arguments->runs, "run directories, or metrics.ndjson files")
      ->required()
      ->type_name("DIR");
  verb->add_option("--value", arguments->values,
                   "what to draw: loss (the default), mean_loss, lr, grad_norm, eval/loss, "
                   "eval/accuracy and others; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  verb->add_option("--svg", arguments->svg,
                   "writes a picture in place of text; -: to standard output")
      ->type_name("FILE");
  verb->add_flag("--log", arguments->log, "logarithmic y axis");
  verb->add_option("--columns", arguments->columns, "width of the text; default: the window's")
      ->type_name("N")
      ->check(CLI::Range(20, 1000));
  verb->add_option("--rows", arguments->rows, "lines of the text; default 16")
      ->type_name("N")
      ->check(CLI::Range(5, 1000));
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return plot(context, *arguments); };
  });
}

}  // namespace plait::cli
