// A page with runs and their curves, for a browser.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "bindings/cli/chart/curves.hpp"
#include "bindings/cli/runs/run_record.hpp"

namespace plait::cli {

struct PageRun {
  std::string name;
  RunRecord record;
  std::vector<Curve> curves;                                 // by name
  std::vector<std::pair<std::string, std::string>> changed;  // keys in which the runs differ
};

struct PageOptions {
  std::string title, note;          // the note: what the page lacks, "" for nothing
  std::vector<std::string> values;  // those with a chart, in their order
  bool log = false;
};

// One file of HTML that needs no other and no network: a table of the runs, and a chart of each
// value. All texts are escaped, and the browser is told to run no script but the page's own.
std::string board_page(const std::vector<PageRun>& runs, const PageOptions& options);

}  // namespace plait::cli
