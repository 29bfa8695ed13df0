// Who this process is, for the other ranks.
#pragma once

#include <string>

#include "engine/runtime/control/messages.hpp"

namespace plait::runtime::control {

// "rank 3 (...)", "rank 3" where nobody has said more.
std::string own_name(const ControlConfig& config);
// All but how long it waits.
Arrival own_arrival(const ControlConfig& config);

}  // namespace plait::runtime::control
