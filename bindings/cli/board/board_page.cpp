#include "bindings/cli/board/board_page.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>

#include "bindings/cli/board/board_page_parts.hpp"
#include "bindings/cli/chart/chart.hpp"
#include "bindings/cli/data/sha256.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/terminal/cells.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

// The digest in base 64, as a browser wants it of a script that may run.
std::string digest_of(const std::string& text) {
  constexpr const char* kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Sha256 sha;
  sha.add(text.data(), text.size());
  const std::string hex = sha.hex();
  std::string all;
  uint32_t bits = 0;
  int n = 0;
  for (const char digit : hex) {
    bits = bits << 4 | static_cast<uint32_t>(digit <= '9' ? digit - '0' : digit - 'a' + 10);
    for (n += 4; n >= 6; n -= 6) all += kDigits[bits >> (n - 6) & 63];
  }
  if (n > 0) all += kDigits[bits << (6 - n) & 63];
  return all + std::string((4 - all.size() % 4) % 4, '=');
}

const Curve* find_curve(const PageRun& run, const std::string& name) {
  const auto at = std::find_if(run.curves.begin(), run.curves.end(),
                               [&](const Curve& c) { return c.name == name; });
  return at == run.curves.end() ? nullptr : &*at;
}

// A line as the run's curves are drawn.
std::string key_svg(size_t i) {
  std::string dashes;
  if (*svg_dashes(i)) dashes = strf(" stroke-dasharray=\"%s\"", svg_dashes(i));
  return strf(
      "<svg class=\"key\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><line x1=\"0\" y1=\"5\" "
      "x2=\"26\" y2=\"5\" stroke=\"%s\"%s/></svg>",
      svg_color(i), dashes.c_str());
}

std::string number_cell(const std::string& text) {
  return "<td class=\"n\">" + markup(text) + "</td>";
}

// The loss and the newest evaluation: what the table has a column for.
std::vector<std::string> columns_of_page(const std::vector<PageRun>& runs) {
  std::vector<std::string> names{"loss"};
  for (const PageRun& run : runs)
    for (const auto& [name, value] : run.record.values)
      if (name.find('/') != std::string::npos && names.size() < 6 &&
          std::find(names.begin(), names.end(), name) == names.end())
        names.push_back(name);
  return names;
}

// Runs of different experiments differ in dozens of keys, which would hide all other rows: most of
// them are folded away.
std::string settings_of(const PageRun& run) {
  constexpr size_t kOpen = 6;
  std::vector<std::string> all;
  if (run.changed.empty())
    all = run.record.overrides;
  else
    for (const auto& [key, value] : run.changed) all.push_back(key + " = " + value);
  std::string html;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == kOpen && all.size() > kOpen + 1)
      html += strf("<details><summary>%zu more</summary>", all.size() - kOpen);
    html += "<code>" + markup(all[i]) + "</code> ";
  }
  if (all.size() > kOpen + 1) html += "</details>";
  return html;
}

std::string run_row(const PageRun& run, size_t i, const std::vector<std::string>& columns) {
  const RunRecord& record = run.record;
  std::string html = strf("<tr data-run=\"%zu\"><td>", i);
  html += strf("<input type=\"checkbox\" checked data-switch=\"%zu\" aria-label=\"", i) +
          markup("show " + run.name) + "\">" + key_svg(i) + "</td>";
  html += "<td class=\"name\"><bdi>" + markup(run.name) + "</bdi></td>";
  html += "<td class=\"" + markup(record.state) + "\">" + markup(record.state) + "</td>";
  html +=
      number_cell(strf("%lld", static_cast<long long>(record.step)) +
                  (record.steps > 0 ? strf("/%lld", static_cast<long long>(record.steps)) : ""));
  html += "<td class=\"changed\">" + settings_of(run) + markup(record.message) + "</td>";
  for (const std::string& name : columns) {
    const bool there = std::any_of(record.values.begin(), record.values.end(),
                                   [&](const auto& v) { return v.first == name; });
    html += number_cell(there ? value_text(name, value_of(record, name)) : "");
  }
  html += number_cell(record.steps_per_s > 0 ? rate_number(record.steps_per_s) : "");
  html += "<td>" + markup(time_text(record.started)) + "</td>";
  html += number_cell(record.seconds > 0 ? duration_text(record.seconds) : "");
  html += "</tr>\n";
  return html;
}

std::string run_table(const std::vector<PageRun>& runs) {
  const std::vector<std::string> columns = columns_of_page(runs);
  std::string html =
      "<div class=\"scroll\"><table id=\"runs\"><thead><tr><th></th><th>run</th><th>state</th>"
      "<th class=\"n\">step</th><th>settings that differ</th>";
  for (const std::string& name : columns) html += "<th class=\"n\">" + markup(name) + "</th>";
  html +=
      "<th class=\"n\">steps/s</th><th>started</th><th class=\"n\">time</th></tr></thead>"
      "<tbody>\n";
  for (size_t i = 0; i < runs.size(); ++i) html += run_row(runs[i], i, columns);
  return html + "</tbody></table></div>\n";
}

std::string point_text(const std::pair<int64_t, double>& point) {
  return metric_text(point.second) + strf(" (%lld)", static_cast<long long>(point.first));
}

std::string figure(const std::vector<PageRun>& runs, const std::string& value, bool log) {
  std::vector<Curve> curves(runs.size());
  std::string rows;
  for (size_t i = 0; i < runs.size(); ++i) {
    const Curve* curve = find_curve(runs[i], value);
    if (!curve) continue;
    curves[i] = *curve;
    const Figures f = figures_of(*curve);
    rows += strf("<tr data-run=\"%zu\"><td>", i) + key_svg(i) + "</td><td class=\"name\"><bdi>" +
            markup(runs[i].name) + "</bdi></td>" + number_cell(metric_text(f.last.second)) +
            number_cell(point_text(f.lowest)) + number_cell(point_text(f.highest)) + "</tr>\n";
  }
  return "<figure><h2>" + markup(value) + "</h2>\n" + chart_svg(curves, {value, log, true}) +
         "<div class=\"scroll\"><table><thead><tr><th></th><th>run</th><th class=\"n\">last</th>"
         "<th class=\"n\">lowest (step)</th><th class=\"n\">highest (step)</th></tr></thead>"
         "<tbody>\n" +
         rows + "</tbody></table></div></figure>\n";
}

}  // namespace

std::string board_page(const std::vector<PageRun>& runs, const PageOptions& options) {
  const std::string made = "made " + time_text(static_cast<double>(time(nullptr)));
  std::string html =
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
      "'unsafe-inline'; script-src 'sha256-" +
      digest_of(kPageScript) +
      "'\">\n<meta name=\"viewport\" content=\"width=device-width\">\n<title>" +
      markup(options.title) + "</title>\n<style>" + kPageStyle + "</style></head>\n<body>\n<h1>" +
      markup(options.title) + "</h1>\n<p>" + markup(made) +
      (options.note.empty() ? "" : "; " + markup(options.note)) + "</p>\n";
  if (runs.empty()) html += "<p>there are no runs</p>\n";
  if (!runs.empty()) {
    html += "<button data-all=\"1\">show all</button><button data-all=\"0\">show none</button>\n" +
            run_table(runs) + "<div class=\"charts\">\n";
    for (const std::string& value : options.values) html += figure(runs, value, options.log);
    html += "</div>\n";
  }
  return html + "<div id=\"tip\" role=\"status\" hidden></div>\n<script>" + kPageScript +
         "</script>\n</body></html>\n";
}

}  // namespace plait::cli
