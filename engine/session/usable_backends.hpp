// Which backends this machine can serve, decided by all ranks before a group opens.
#pragma once

#include <set>
#include <string>

#include "engine/plan/plan.hpp"
#include "engine/runtime/backend_selection.hpp"
#include "engine/runtime/control.hpp"
#include "engine/session/control_collectives.hpp"

namespace plait::session {

// Asks every backend that this rank would use whether the machine suffices (plait_comm_item.probe).
// Returns the backends that refused on some rank, the same on all ranks; rank 0 logs each with the
// reason. All ranks call it. Errors: as the backend if topology.backend names it, or no other
// is left; PLAIT_ERR_PEER. [blocks: yes]
std::set<std::string> unusable_backends(const plan::Plan& plan, const runtime::Control& control,
                                        ControlCollectives& collectives, bool host_memory,
                                        Log& log);

}  // namespace plait::session
