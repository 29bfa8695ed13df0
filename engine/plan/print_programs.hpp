// The programs of a plan in the text form of engine/program/text/print.hpp, as the plan executes
// them.
#pragma once

#include <string>
#include <string_view>

#include "engine/plan/plan.hpp"

namespace plait::plan {

// name: of one program; empty: all. Comments name segments, collectives, the kernel of each op and
// where its results lie in the arena. Errors: PLAIT_ERR_NOT_FOUND if there is no such program.
std::string print_programs(const Plan& plan, std::string_view name);

}  // namespace plait::plan
