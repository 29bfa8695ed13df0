// What trials of a sweep are ranked by, and why one of them failed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// The values that the runs of an experiment will have, as `plait runs` names them. plan: of
// Plan::describe().
std::vector<std::string> ranked_values(const Json& plan, bool evaluates);

// The last error of the output of a process, in one line without "error: "; "" if there is none.
std::string last_error(const std::string& log);

}  // namespace plait::cli
