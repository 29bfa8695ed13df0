// What `plait plan --measured` prints for people. replay: the record of plait_plan_replay().
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

void show_replay(Terminal& t, const Json& replay);

}  // namespace plait::cli
