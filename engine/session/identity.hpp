// The properties that must be equal on all ranks of a job, as texts for error messages.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::session {

// Engine, plugins with a hash of their files, every key of the experiment that decides the result,
// the datasets, the plan.
std::vector<std::pair<std::string, std::string>> identity_of(const plan::Plan& plan);

}  // namespace plait::session
