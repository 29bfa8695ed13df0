// This process as it is described to the other ranks.
#pragma once

#include <string>

#include "engine/runtime/control/messages.hpp"

namespace plait::runtime::control {

// "rank 3 (...)", or "rank 3" if the config gives no name.
std::string own_name(const ControlConfig& config);
// All fields except the waiting time.
Arrival own_arrival(const ControlConfig& config);

}  // namespace plait::runtime::control
