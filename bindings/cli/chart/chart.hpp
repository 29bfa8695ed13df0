// Curves as lines of text for a terminal, and as SVG.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/chart/curves.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

struct ChartOptions {
  int columns = 80, rows = 16;  // of the whole, its axes and legend included
  bool utf8 = true;             // dots of Braille letters, 2 x 4 in a column; else letters
  bool color = false;
  bool log = false;  // logarithmic y axis; what is not above 0 is left out
};

// As stdout is: its columns, where it is a window, its letters and colors.
ChartOptions chart_options(const Terminal& terminal);

// Makes room around numbers that differ in the last digits alone, if at all.
void widen(double& low, double& high);

// Each curve is one of several runs or values; names that are empty have no legend. Where several
// are drawn without color, each has a letter of its own. Values of one column of dots are averaged.
// Text of `rows` lines at most, each ending in a newline; "" if there is nothing to draw.
std::string chart_text(const std::vector<Curve>& curves, const ChartOptions& options);

// What stands for curve i in a legend: one column.
std::string chart_mark(size_t i, const ChartOptions& options, bool several);

struct SvgOptions {
  std::string title;
  bool log = false;
  // For a page that has title, legend, style and the ground: each curve is of a class "curve" with
  // its number in data-run, and the ranges of the axes stand in data-x and data-y.
  bool in_page = false;
};
// A picture of its own: white ground, or dark where the viewer prefers that.
std::string chart_svg(const std::vector<Curve>& curves, const SvgOptions& options);
// The color of curve i, readable on white and on dark ground; its dashes, "" for none.
const char* svg_color(size_t i);
const char* svg_dashes(size_t i);

}  // namespace plait::cli
