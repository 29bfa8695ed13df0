// Draws a simulated schedule as SVG: a row for each rank, a box for each action with its
// micro-batch in it, colours by kind and shades by chunk, idle share and held micro-batches beside
// the row, a legend and a time axis. Plain text, no dependency.
#pragma once

#include <string>

#include "engine/topology/simulate.hpp"

namespace plait::topology {

struct SvgOptions {
  std::string title;  // "" : the schedule's name and sizes
  std::string unit;   // of the times: "ms"; "": no unit is written
  double width =
      1100;  // of the rows in pixels, at least; grows with the number of actions up to kMaxSvgWidth
};
inline constexpr double kMaxSvgWidth = 8000;

// `timeline` belongs to `schedule`. Any text in the options is escaped. Errors: PLAIT_ERR_INVALID
// if the two do not match.
std::string draw_svg(const Schedule& schedule, const Timeline& timeline,
                     const SvgOptions& options = {});

}  // namespace plait::topology
