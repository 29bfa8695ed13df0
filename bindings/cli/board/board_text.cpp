#include "bindings/cli/board/board_text.hpp"

#include <algorithm>
#include <cmath>

#include "bindings/cli/chart/chart.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/terminal/cells.hpp"
#include "bindings/cli/terminal/fitted_columns.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

constexpr int kAround = 4;  // lines that are neither runs nor chart: title, head, value, message
constexpr int kLeastChart = 6;
constexpr int kGap = kColumnGap, kMarks = 4;  // "> ━ " before the first column

std::string styled(const BoardLook& look, const char* code, const std::string& text) {
  return look.color ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
}

// A value as a table has room for.
std::string short_text(double value) {
  return std::isfinite(value) ? strf("%.4g", value) : metric_text(value);
}

bool is_loss(const std::string& name) { return name.ends_with("/loss"); }

// What the newest evaluation is shown by: the value that is drawn if it is one, else the first
// metric, else the loss.
std::string evaluated_value(const BoardScreen& screen) {
  if (screen.value.find('/') != std::string::npos) return screen.value;
  std::string loss;
  for (const BoardRow& row : screen.rows)
    for (const auto& [name, value] : row.record.values) {
      if (name.find('/') == std::string::npos) continue;
      if (!is_loss(name)) return name;
      if (loss.empty()) loss = name;
    }
  return loss;
}

std::string value_text(const RunRecord& run, const std::string& name) {
  for (const auto& [key, value] : run.values)
    if (key == name) return name.ends_with("_per_s") ? rate_number(value) : short_text(value);
  return "";
}

// A loss that is no number any more has no mean that means something.
std::string loss_text(const RunRecord& run) {
  const double loss = value_of(run, "loss"), mean = value_of(run, "mean_loss");
  const bool known = std::any_of(run.values.begin(), run.values.end(),
                                 [](const auto& v) { return v.first == "loss"; });
  if (known && !std::isfinite(loss)) return short_text(loss);
  return std::isnan(mean) ? "" : short_text(mean);
}

std::string rate_text(const RunRecord& run) {
  return run.steps_per_s > 0 ? rate_number(run.steps_per_s) + "/s" : "";
}

std::string changed_text(const RunRecord& run) {
  std::string text;
  for (const std::string& one : run.overrides) text += (text.empty() ? "" : " ") + one;
  return text;
}

std::string step_text(const RunRecord& run) {
  std::string text = std::to_string(run.step);
  return run.steps > 0 ? text + "/" + std::to_string(run.steps) : text;
}

// The name first, the changed keys last: they get what the others leave.
std::vector<FittedColumn> table_columns(const BoardScreen& screen) {
  const std::string evaluated = evaluated_value(screen);
  // A value that is drawn and is neither loss nor evaluation has a column too.
  const bool other =
      screen.value != "loss" && screen.value != "mean_loss" && screen.value != evaluated;
  std::vector<FittedColumn> columns = {{"run", false, 9, {}},
                                       {"state", false, 7, {}},
                                       {"step", true, 6, {}},
                                       {"mean_loss", true, 8, {}},
                                       {evaluated, true, 5, {}},
                                       {other ? screen.value : "", true, 5, {}},
                                       {"rate", true, 2, {}},
                                       {"left", true, 3, {}},
                                       {"changed", false, kRestColumn, {}}};
  for (const BoardRow& row : screen.rows) {
    const RunRecord& run = row.record;
    const std::string texts[] = {
        row.name,
        run.state,
        step_text(run),
        loss_text(run),
        value_text(run, evaluated),
        value_text(run, screen.value),
        rate_text(run),
        std::isnan(row.seconds_left) ? "" : duration_text(row.seconds_left),
        changed_text(run)};
    for (size_t i = 0; i < columns.size(); ++i) columns[i].cells.push_back(texts[i]);
  }
  // Without a cell that has text, a column says nothing.
  std::erase_if(columns, [](const FittedColumn& c) {
    return c.head.empty() || (c.importance < 6 && std::all_of(c.cells.begin(), c.cells.end(),
                                                              [](auto& s) { return s.empty(); }));
  });
  return columns;
}

const char* color_of(const std::string& state) {
  if (state == "running") return "32";
  if (state == "failed" || state == "lost") return "31";
  return state == "interrupted" ? "33" : "0";
}

// The letter or line that stands for the row's curve.
std::string curve_mark(const BoardScreen& screen, const BoardRow& row, const BoardLook& look) {
  if (row.curve < 0) return " ";
  ChartOptions options;
  options.utf8 = look.utf8;
  options.color = look.color;
  return chart_mark(static_cast<size_t>(row.curve), options, screen.curves.size() > 1);
}

std::vector<FittedColumn> fitted_columns(const BoardScreen& screen, const BoardLook& look) {
  const int room = look.columns - kMarks;
  std::vector<FittedColumn> columns = table_columns(screen), whole = columns;
  fit_columns(columns, room, look.utf8);
  if (!look.whole_names) return columns;
  fit_columns(whole, room, look.utf8, Names::kWhole);
  const bool tells = std::any_of(whole.begin(), whole.end(),
                                 [](const FittedColumn& c) { return c.head == "state"; });
  return tells ? whole : columns;
}

std::vector<std::string> table_lines(const BoardScreen& screen, const BoardLook& look) {
  const std::vector<FittedColumn> columns = fitted_columns(screen, look);
  std::string head = std::string(kMarks - kGap, ' ');
  for (const FittedColumn& c : columns)
    head += std::string(kGap, ' ') + padded(c.head, c.width, look.utf8, c.right);
  std::vector<std::string> lines{styled(look, "2", cell(head, look.columns, look.utf8))};
  for (size_t i = 0; i < screen.rows.size(); ++i) {
    const BoardRow& row = screen.rows[i];
    std::string line = std::string(row.marked ? ">" : " ") + " " + curve_mark(screen, row, look);
    for (size_t k = 0; k < columns.size(); ++k) {
      const FittedColumn& c = columns[k];
      std::string text =
          padded(c.cells[i], c.width, look.utf8, c.right, k == 0 ? Cut::kBegin : Cut::kEnd);
      if (k + 1 == columns.size()) text.erase(text.find_last_not_of(' ') + 1);
      if (c.head == "state") text = styled(look, color_of(row.record.state), text);
      if (k == 0 && row.marked) text = styled(look, "1", text);
      line += (k ? std::string(kGap, ' ') : " ") + text;
    }
    lines.push_back(line);
  }
  return lines;
}

std::string title_line(const BoardScreen& screen, const BoardLook& look) {
  std::string states;
  for (const auto& [state, n] : screen.states)
    states += (states.empty() ? "" : ", ") + strf("%zu ", n) + state;
  const int used = columns_of(states, look.utf8) + kGap;
  const int room = std::min(std::max(look.columns - used, 8), look.columns);
  const std::string title = cell(screen.title, room, look.utf8);
  const int left = look.columns - columns_of(title, look.utf8) - kGap;
  if (left <= 0 || states.empty()) return styled(look, "1", title);
  return styled(look, "1", title) + std::string(kGap, ' ') + cell(states, left, look.utf8);
}

void add_chart(const BoardScreen& screen, const BoardLook& look, int rows,
               std::vector<std::string>& to) {
  std::string head = screen.value + (screen.log ? " (logarithmic)" : "");
  ChartOptions options;
  options.columns = look.columns;
  options.rows = rows;
  options.utf8 = look.utf8;
  options.color = look.color;
  options.log = screen.log;
  const std::string chart = chart_text(screen.curves, options);
  if (screen.reading)
    head += " (reading)";
  else if (chart.empty() && !screen.rows.empty())
    head += screen.log ? ": no values above 0" : ": no values yet";
  to.push_back(cell(head, look.columns, look.utf8));
  for (size_t at = 0; at < chart.size();) {
    const size_t end = chart.find('\n', at);
    to.push_back(chart.substr(at, end - at));
    at = end + 1;
  }
}

}  // namespace

size_t board_rows(size_t n, const BoardLook& look) {
  const int room = std::max(look.rows - kAround, 1);
  const int beside = room / 2 >= kLeastChart ? std::max(room / 2, 3) : room;
  return std::min(n, static_cast<size_t>(beside));
}

std::vector<std::string> board_lines(const BoardScreen& screen, const BoardLook& look) {
  std::vector<std::string> lines{title_line(screen, look)};
  for (std::string& line : table_lines(screen, look)) lines.push_back(std::move(line));
  const int chart = look.rows - kAround - static_cast<int>(screen.rows.size());
  if (chart >= kLeastChart && !screen.rows.empty()) add_chart(screen, look, chart, lines);
  const auto most = static_cast<size_t>(std::max(look.rows, 1));
  if (screen.message.empty() || most == 1) {
    if (lines.size() > most) lines.resize(most);
    return lines;
  }
  lines.resize(most - 1);
  lines.push_back(styled(look, "2", cell(screen.message, look.columns, look.utf8)));
  return lines;
}

}  // namespace plait::cli
