// A screen of `plait board` as lines of text.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/chart/curves.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {

struct BoardRow {
  std::string name;
  RunRecord record;
  double loss = 0, seconds_left = 0;  // of a WatchedRun
  int curve = -1;                     // index of its curve; -1: it is not drawn
  bool marked = false;                // where the arrow keys are
};

struct BoardScreen {
  std::string title, message;                          // of the top and of the lowest line
  std::vector<std::pair<std::string, size_t>> states;  // of all runs, with their numbers
  std::vector<BoardRow> rows;
  std::vector<Curve> curves;  // of the value; those of runs that are not drawn are empty
  std::string value;
  bool log = false, reading = false;  // reading: there is more of the curves than is shown
};

struct BoardLook {
  int columns = 80, rows = 24;
  bool utf8 = true, color = false;
  bool whole_names = false;  // to be copied, where they leave room for the state
};

// How many of n runs a screen has room for, beside the curves.
size_t board_rows(size_t n, const BoardLook& look);
// rows lines at most, of columns at most.
std::vector<std::string> board_lines(const BoardScreen& screen, const BoardLook& look);

}  // namespace plait::cli
