// The runs, the curves and the choices of a `plait board`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "bindings/cli/board/board_text.hpp"
#include "bindings/cli/chart/curves.hpp"
#include "bindings/cli/runs/run_watch.hpp"

namespace plait::cli {

class Board {
 public:
  static constexpr size_t kMostDrawn = 6;  // curves, before anybody chose; a terminal's colors
  // limit: of the curves, before anybody chose, where that is less.
  Board(std::vector<std::string> folders, std::string value, bool log, size_t limit);

  // Looks for new runs. Errors: as of find_runs().
  void scan() { list_.scan(); }
  const RunList& list() const { return list_; }
  // Reads what is new of `rows` runs, and of the curves about `most` bytes each. Returns whether
  // there is more of them at once.
  bool update(size_t rows, size_t most = SIZE_MAX);
  // Of the newest update().
  BoardScreen screen() const;
  // The names of all values that the drawn runs have.
  std::set<std::string> names() const;
  // Up, down and others, space, m, l: see the line of keys. Others do nothing.
  void press(int key, size_t rows);

 private:
  void move(int64_t by);
  void next_value(int by);
  void choose_curves();
  size_t marked() const;

  RunList list_;
  std::string value_;
  bool log_, reading_ = false;
  size_t limit_;
  std::string mark_;                             // the path of the run where the arrow keys are
  size_t first_ = 0, shown_ = 0;                 // runs of the list on the screen
  std::optional<std::set<std::string>> chosen_;  // paths; before: the first runs
  std::vector<std::string> curves_;              // the path of each curve; "": free
  std::map<std::string, std::unique_ptr<WatchedRun>> runs_;
  std::map<std::string, std::unique_ptr<CurveReader>> readers_;
};

}  // namespace plait::cli
