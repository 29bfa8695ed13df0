// Who this process is, for the other ranks.
#pragma once

#include "engine/runtime/control/messages.hpp"

namespace plait::runtime::control {

// All but how long it waits.
Arrival own_arrival(const ControlConfig& config);

}  // namespace plait::runtime::control
