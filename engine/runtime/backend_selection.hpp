// The backends over which a group communicates.
#pragma once

#include <plait/comm.h>

#include <set>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/runtime/control.hpp"

namespace plait::runtime {

// One backend for all members; or a hierarchical group: one backend within each host and one
// between hosts; or a staged group (staged.hpp): a backend for host memory, for device memory.
struct BackendSelection {
  const plait_comm_item* flat;             // reaches all members
  const plait_comm_item* intra = nullptr;  // connects the ranks of this host, if there are several
  std::string name;                        // of all backends in use, the same on all members
  bool staged = false;
  bool hierarchical() const { return name != flat->name; }
};

// What a group is to exchange.
enum class GroupMemory {
  kHost,        // of a device whose memory is the host's: any backend for either
  kDevice,      // of a device that has memory of its own
  kBesideHost,  // the host's, beside the group of such a device: topology.backend counts where it
                // names a backend for that
};

// A group of this rank that the plan's collectives use.
struct NeededGroup {
  topology::ProcessGroup members;
  uint32_t channel;
};
// In the same order on every rank, so that no two ranks wait for each other in different groups.
std::vector<NeededGroup> needed_groups(const plan::Plan& plan);

// The backend that topology.backend names; with "auto" the nearest. A group is hierarchical unless
// that brings nothing: when no two members share a host, or nothing nearer than the network reaches
// those that do; nor is it for memory of a device. A group for device memory is staged if no
// backend of the device is left, or topology.backend names one for host memory. passed_over:
// backends that "auto" leaves out. Errors: PLAIT_ERR_CONFIG when no backend reaches all members.
BackendSelection select_backend(const plan::Plan& plan, const std::vector<Peer>& peers,
                                const topology::ProcessGroup& group, GroupMemory memory,
                                const std::set<std::string>& passed_over = {});

// Whether groups of a backend start what may be deferred when it is waited for: see
// plan::may_be_deferred().
bool defers(const plait_comm_item& backend);

// Whether some calls of the plan on that group need the flat group; the same on all members.
bool plan_needs_flat_group(const plan::Plan& plan, topology::Axis axis, uint32_t channel);

}  // namespace plait::runtime
