#include "bindings/cli/runs/run_summary.hpp"

#include <algorithm>

#include "bindings/cli/chart/chart.hpp"
#include "bindings/cli/context.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

bool is_shown(const std::string& name) {
  return name == "loss" || name.find('/') != std::string::npos;
}

std::string at_step(const std::pair<int64_t, double>& point) {
  return metric_text(point.second) + strf(" (%lld)", static_cast<long long>(point.first));
}

void add_row(const Curve& c, Table& to) {
  const Figures f = figures_of(c);
  to.row({c.name, metric_text(c.points.front().second), metric_text(f.last.second),
          at_step(f.lowest), at_step(f.highest)});
}

void draw(Terminal& terminal, const Curve& loss) {
  if (terminal.columns() == 0) return;
  ChartOptions options = chart_options(terminal);
  options.columns = std::min(options.columns, 100);
  options.rows = 8;
  terminal.raw(chart_text({{"", loss.points}}, options));
}

}  // namespace

void show_summary(Terminal& terminal, const std::string& run_dir) {
  std::vector<Curve> curves;
  try {
    curves = read_curves(run_dir, is_shown);
  } catch (const std::exception&) {
    return;  // a run of less than run.log_every steps writes no line; no fault of the run's
  }
  Table table("lrrrr");
  table.row({"", "first", "last", "lowest (step)", "highest (step)"});
  bool any = false;
  for (const Curve& c : curves)
    if (c.points.size() > 1) {
      add_row(c, table);
      any = true;
    }
  if (!any) return;
  terminal.raw(table.fitted("", terminal.columns(), terminal.utf8()));
  for (const Curve& c : curves)
    if (c.name == "loss" && c.points.size() > 1) draw(terminal, c);
}

}  // namespace plait::cli
