// A plan as JSON.
#pragma once

#include <string>

#include "engine/plan/plan.hpp"

namespace plait::plan {

// The description that `plait plan` and other tools read.
std::string describe(const Plan& plan);

}  // namespace plait::plan
