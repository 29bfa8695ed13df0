// One process does the work, whatever ranks the experiment trains on.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// Overrides for that; evaluation batches keep their size. values: as in Experiment::describe().
std::vector<std::string> on_one_rank(const Json& values);

}  // namespace plait::cli
