// What ranks exchange over their backends, and the memory that they share for it.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/plan/describe.hpp"
#include "engine/runtime/backend_selection.hpp"

namespace plait::runtime {

// By name of the backend; `ranks` is 0.
using BackendNeeds = std::map<std::string, plait_comm_needs>;

// Of the groups of the plan's rank, each with the backends that it would use without those in
// `passed_over`. Errors: as select_backend().
BackendNeeds backend_needs(const plan::Plan& plan, const std::vector<Peer>& peers, bool host_memory,
                           const std::set<std::string>& passed_over);

// Errors: PLAIT_ERR_CONFIG where topology.backend names a backend that does not work on the plan's
// device, as connecting the ranks says it. Opens no device.
void check_named_backend(const plan::Plan& plan);

// What the ranks of a job share when all of them run on this machine, of each backend that says so
// (plait_comm_item.shared_memory). Every rank counts as the plan's own, which is exact without a
// pipeline. Opens no device: its memory counts as the host's unless a backend exchanges that of the
// device. Empty for a single rank, and where no backend connects the ranks.
std::vector<plan::SharedMemoryUse> shared_memory_of(const plan::Plan& plan);

}  // namespace plait::runtime
