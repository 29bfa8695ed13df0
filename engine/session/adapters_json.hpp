// The adapters of a plan, for hosts.
#pragma once

#include <string>

#include "engine/plan/plan.hpp"

namespace plait::session {

// See plait_session_adapters().
std::string adapters_json(const plan::Plan& plan);

}  // namespace plait::session
