// Columns of a table that has to fit a terminal.
#pragma once

#include <string>
#include <vector>

namespace plait::cli {

inline constexpr int kColumnGap = 2;  // between two columns
inline constexpr int kRestColumn =
    1;  // the importance of a last column that gets what others leave

struct FittedColumn {
  std::string head;
  bool right = false;
  int importance = 0;  // of two columns that have no room the less important one is left out
  std::vector<std::string> cells = {};
  int width = 0;  // by fit_columns()
};

// Of the first column: kWhole where they are paths, to be copied.
enum class Names { kCut, kWhole };

// Gives columns their widths, in `room` columns of the terminal, and leaves out what has no room.
// The first one is a name, which may be cut at its beginning; the second one, a state, may be cut,
// too. A whole name that has no room by itself is longer than the line.
void fit_columns(std::vector<FittedColumn>& columns, int room, bool utf8,
                 Names names = Names::kCut);

// The head and the cells as lines without style, each ending in a newline.
std::string text_of(const std::vector<FittedColumn>& columns, bool utf8);

}  // namespace plait::cli
