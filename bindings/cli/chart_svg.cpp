#include <algorithm>
#include <cmath>

#include "bindings/cli/chart.hpp"
#include "bindings/cli/terminal.hpp"

namespace plait::cli {
namespace {

constexpr double kWidth = 720, kHeight = 420, kLeft = 72, kRight = 16, kTop = 44, kBottom = 44;
// Readable on white and on dark ground, and for people who do not see red and green apart (Okabe
// and Ito 2008).
constexpr const char* kStrokes[] = {"#0072b2", "#d55e00", "#009e73",
                                    "#cc79a7", "#e69f00", "#56b4e9"};
constexpr size_t kMostPoints = 2000;  // of a curve; more are averaged

std::string escaped(const std::string& text) {
  std::string all;
  for (const char c : text)
    all += static_cast<unsigned char>(c) < 0x20 ? " "
           : c == '&'                           ? "&amp;"
           : c == '<'                           ? "&lt;"
           : c == '>'                           ? "&gt;"
           : c == '"'                           ? "&quot;"
                                                : std::string(1, c);
  return all;
}

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
         escaped(text) + "</text>\n";
}

// (step, value) with neighbours averaged, as the axis of values has them.
std::vector<std::pair<double, double>> drawn(const Curve& c, bool log) {
  std::vector<std::pair<double, double>> all;
  const size_t block = (c.points.size() + kMostPoints - 1) / kMostPoints;
  for (size_t i = 0; i < c.points.size(); i += block) {
    double step = 0, value = 0, n = 0;
    for (size_t k = i; k < std::min(i + block, c.points.size()); ++k) {
      const auto& [at, v] = c.points[k];
      if (log && !(v > 0)) continue;
      step += static_cast<double>(at);
      value += log ? std::log10(v) : v;
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

}  // namespace

std::string chart_svg(const std::vector<Curve>& curves, const std::string& title, bool log) {
  std::vector<std::vector<std::pair<double, double>>> all;
  double low = INFINITY, high = -INFINITY, first = INFINITY, last = -INFINITY;
  for (const Curve& c : curves) {
    all.push_back(drawn(c, log));
    for (const auto& [step, value] : all.back()) {
      low = std::min(low, value);
      high = std::max(high, value);
      first = std::min(first, step);
      last = std::max(last, step);
    }
  }
  std::string svg = strf(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"%g\" "
      "height=\"%g\" role=\"img\">\n",
      kWidth, kHeight, kWidth, kHeight);
  svg += "<title>" + escaped(title) + "</title>\n" + kStyle;
  svg += words(kLeft, 24, "start", title, " class=\"title\"");
  if (low <= high) {
    const Axis x = axis_of(first, last, kLeft, kWidth - kRight);
    const Axis y = axis_of(low, high, kHeight - kBottom, kTop);
    for (const double v : ticks(y.low, y.high, 6)) {
      svg += line(kLeft, y.at(v), kWidth - kRight, y.at(v));
      svg += words(kLeft - 8, y.at(v) + 4, "end", strf("%.4g", log ? std::pow(10, v) : v));
    }
    for (const double v : ticks(x.low, x.high, 7)) {
      svg += line(x.at(v), kTop, x.at(v), kHeight - kBottom);
      svg += words(x.at(v), kHeight - kBottom + 18, "middle", strf("%.10g", v));
    }
    svg += words((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "step");
    double legend = kLeft;
    for (size_t i = 0; i < all.size(); ++i) {
      const char* stroke = kStrokes[i % std::size(kStrokes)];
      svg += strf("<polyline stroke=\"%s\" points=\"", stroke);
      for (const auto& [step, value] : all[i]) svg += strf("%.1f,%.1f ", x.at(step), y.at(value));
      svg += "\"/>\n";
      if (curves[i].name.empty()) continue;
      svg += strf("<rect x=\"%.1f\" y=\"32\" width=\"14\" height=\"3\" fill=\"%s\"/>\n", legend,
                  stroke);
      svg += words(legend + 20, 37, "start", curves[i].name);
      legend += 36 + 6.6 * static_cast<double>(curves[i].name.size());
    }
  }
  return svg + "</svg>\n";
}

}  // namespace plait::cli
