// A board as a page and as a record.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/board/board_text.hpp"
#include "bindings/cli/runs/run_watch.hpp"
#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// The first `most` runs of a list as board_page() makes it: with the charts of `values`, of the
// most telling ones if there are none. Errors: CliError for a value that no run has.
std::string page_of(const RunList& list, size_t most, std::vector<std::string> values, bool log);

// {"count", "states", "runs"}: all runs are counted, those of the screen are told.
Json record_of(const BoardScreen& screen, size_t count);

// Errors: CliError with the names that are near and those that there are.
void check_value(const std::string& name, const std::vector<std::string>& names);

}  // namespace plait::cli
