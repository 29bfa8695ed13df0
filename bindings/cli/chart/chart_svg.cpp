#include <algorithm>
#include <cmath>

#include "bindings/cli/chart/chart.hpp"
#include "bindings/cli/terminal/cells.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {
namespace {

constexpr double kWidth = 720, kHeight = 420, kLeft = 72, kRight = 16, kBottom = 44;
constexpr double kTop = 44, kTopInPage = 12;
// Readable on white and on dark ground, and for people who do not see red and green apart (Okabe
// and Ito 2008).
constexpr const char* kStrokes[] = {"#0072b2", "#d55e00", "#009e73",
                                    "#cc79a7", "#e69f00", "#56b4e9"};
// Of curves that have the same color.
constexpr const char* kDashes[] = {"", "6 3", "2 3", "9 3 2 3"};
constexpr size_t kMostPoints = 2000, kMostInPage = 500;  // of a curve; more are averaged

// The round numbers 1, 2 and 5 times a power of ten, about n of them.
std::vector<double> ticks(double low, double high, int n) {
  const double rough = (high - low) / n, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= rough) {
      step = factor * power;
      break;
    }
  const double first = std::ceil(low / step);
  std::vector<double> all;
  for (int k = 0; k < 3 * n; ++k)
    if (const double at = (first + k) * step; at <= high + step * 1e-9) all.push_back(at);
  return all;
}

struct Axis {
  double low, high, begin, end;  // numbers, and where they are on the picture
  double at(double v) const { return begin + (end - begin) * (v - low) / (high - low); }
};

Axis axis_of(double low, double high, double begin, double end) {
  widen(low, high);
  return {low, high, begin, end};
}

std::string line(double x1, double y1, double x2, double y2) {
  return strf("<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x1, y1,
              x2, y2);
}

std::string words(double x, double y, const char* anchor, const std::string& text,
                  const char* name = "") {
  return strf("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\"%s>", x, y, anchor, name) +
         markup(text) + "</text>\n";
}

// (step, value) with neighbours averaged, as the axis of values has them.
std::vector<std::pair<double, double>> drawn(const Curve& c, const SvgOptions& options) {
  std::vector<std::pair<double, double>> all;
  const size_t most = options.in_page ? kMostInPage : kMostPoints;
  const size_t block = (c.points.size() + most - 1) / most;
  for (size_t i = 0; i < c.points.size(); i += block) {
    double step = 0, value = 0, n = 0;
    for (size_t k = i; k < std::min(i + block, c.points.size()); ++k) {
      const auto& [at, v] = c.points[k];
      if (options.log && !(v > 0)) continue;
      step += static_cast<double>(at);
      value += options.log ? std::log10(v) : v;
      ++n;
    }
    if (n > 0) all.emplace_back(step / n, value / n);
  }
  return all;
}

constexpr const char* kStyle =
    "<style>\n"
    "svg { background: #ffffff; color: #1a1a1a }\n"
    "text { fill: currentColor; font: 12px system-ui, sans-serif }\n"
    ".title { font-size: 15px; font-weight: 600 }\n"
    ".grid { stroke: currentColor; stroke-opacity: 0.15 }\n"
    "polyline { fill: none; stroke-width: 1.6; stroke-linejoin: round }\n"
    "@media (prefers-color-scheme: dark) { svg { background: #16181d; color: #e6e6e6 } }\n"
    "</style>\n";

using Drawn = std::vector<std::pair<double, double>>;

struct Axes {
  Axis x, y;
};

// Of curves of which one has points at least.
Axes axes_of(const std::vector<Drawn>& all, double top) {
  double low = INFINITY, high = -INFINITY, first = INFINITY, last = -INFINITY;
  for (const Drawn& points : all)
    for (const auto& [step, value] : points) {
      low = std::min(low, value);
      high = std::max(high, value);
      first = std::min(first, step);
      last = std::max(last, step);
    }
  return {axis_of(first, last, kLeft, kWidth - kRight), axis_of(low, high, kHeight - kBottom, top)};
}

std::string grid(const Axes& axes, bool log) {
  const auto& [x, y] = axes;
  std::string svg;
  for (const double v : ticks(y.low, y.high, 6)) {
    svg += line(kLeft, y.at(v), kWidth - kRight, y.at(v));
    svg += words(kLeft - 8, y.at(v) + 4, "end", strf("%.4g", log ? std::pow(10, v) : v));
  }
  for (const double v : ticks(x.low, x.high, 7)) {
    svg += line(x.at(v), y.end, x.at(v), y.begin);
    svg += words(x.at(v), kHeight - kBottom + 18, "middle", strf("%.10g", v));
  }
  return svg + words((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "step");
}

std::string curve_svg(const Drawn& points, const Axes& axes, size_t i, const SvgOptions& options) {
  std::string look = strf("stroke=\"%s\"", svg_color(i));
  if (*svg_dashes(i)) look += strf(" stroke-dasharray=\"%s\"", svg_dashes(i));
  if (options.in_page) look += strf(" class=\"curve\" data-run=\"%zu\"", i);
  const auto& [x, y] = axes;
  if (points.size() == 1)
    return strf("<circle r=\"3\" fill=\"none\" %s cx=\"%.1f\" cy=\"%.1f\"/>\n", look.c_str(),
                x.at(points[0].first), y.at(points[0].second));
  std::string svg = "<polyline " + look + " points=\"";
  for (const auto& [step, value] : points) svg += strf("%.1f,%.1f ", x.at(step), y.at(value));
  return svg + "\"/>\n";
}

std::string legend_svg(const std::vector<Curve>& curves) {
  std::string svg;
  double at = kLeft;
  for (size_t i = 0; i < curves.size(); ++i) {
    if (curves[i].name.empty()) continue;
    svg += strf("<rect x=\"%.1f\" y=\"32\" width=\"14\" height=\"3\" fill=\"%s\"/>\n", at,
                svg_color(i));
    svg += words(at + 20, 37, "start", curves[i].name);
    at += 36 + 6.6 * static_cast<double>(curves[i].name.size());
  }
  return svg;
}

}  // namespace

const char* svg_color(size_t i) { return kStrokes[i % std::size(kStrokes)]; }
const char* svg_dashes(size_t i) { return kDashes[i / std::size(kStrokes) % std::size(kDashes)]; }

std::string chart_svg(const std::vector<Curve>& curves, const SvgOptions& options) {
  std::vector<Drawn> all;
  for (const Curve& c : curves) all.push_back(drawn(c, options));
  const bool any = std::any_of(all.begin(), all.end(), [](const Drawn& d) { return !d.empty(); });
  std::string head = strf(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
      "height=\"%g\" role=\"img\"",
      kWidth, kHeight, kWidth, kHeight);
  std::string body;
  if (options.in_page)  // a <title> would be shown beside what the page's script shows
    head += " class=\"chart\" aria-label=\"" + markup(options.title) + "\"";
  else
    body = "<title>" + markup(options.title) + "</title>\n" + kStyle +
           words(kLeft, 24, "start", options.title, " class=\"title\"");
  if (any) {
    const Axes axes = axes_of(all, options.in_page ? kTopInPage : kTop);
    if (options.in_page)
      head += strf(" data-x=\"%g %g %.10g %.10g\" data-y=\"%g %g %.10g %.10g %d\"", axes.x.begin,
                   axes.x.end, axes.x.low, axes.x.high, axes.y.begin, axes.y.end, axes.y.low,
                   axes.y.high, options.log);
    body += grid(axes, options.log);
    for (size_t i = 0; i < all.size(); ++i)
      if (!all[i].empty()) body += curve_svg(all[i], axes, i, options);
    if (!options.in_page) body += legend_svg(curves);
  }
  return head + ">\n" + body + "</svg>\n";
}

}  // namespace plait::cli
