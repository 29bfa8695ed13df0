// What a run came to: its values as a table, its loss as a curve.
#pragma once

#include <string>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// Prints, of a run directory, first, last, lowest and highest value of the loss and of evaluations,
// and on a terminal the curve of the loss. Nothing where there are fewer than two values.
void show_summary(Terminal& terminal, const std::string& run_dir);

}  // namespace plait::cli
