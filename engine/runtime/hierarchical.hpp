// A group whose members are on several machines, with several members on one machine: members of a
// machine communicate through the fastest backend that connects them, machines through the network.
// To its user it is an ordinary backend.
//
// Its subgroups:
// - intra: the members on this rank's host; none if the rank is alone there.
// - inter: one member of each host: those with equal local index if all hosts have equally many
//   members; else the first of each host, the leaders.
// - intra_broadcast: the members of intra, for the steps after inter. Of the three, its time-out is
//   the longest, and intra has the shortest.
// - flat: all members, over the network: for point-to-point messages, and for calls that a
//   hierarchy would only slow down.
//
// A call is a list of steps on these subgroups (hierarchical_steps.hpp), which the group's own
// thread executes; calls run one after the other. Sends and receives use the subgroup that reaches
// the peer, and wait for no other call. All operands are in host memory.
#pragma once

#include <plait/comm.h>

#include <string>

namespace plait::runtime {

// The backend of one subgroup. Borrowed until the group is open; the item and its host for longer.
struct CommBackend {
  const plait_comm_item* item = nullptr;
  const plait_host* host = nullptr;
  const plait_options* options = nullptr;
  std::string plugin;  // for messages
};

struct HierarchicalConfig {
  std::string name;   // the name of the group's backend in messages
  CommBackend intra;  // connects this rank's host
  CommBackend inter;  // connects all hosts
  // whether there will be calls for which needs_flat_group() is true; the same on all ranks
  bool flat = true;
};

// Whether a call uses the network between all members: messages between hosts, all_to_all, and sums
// of 16-bit floats, which must be rounded only once.
bool needs_flat_group(uint32_t kind, uint32_t dtype, uint32_t reduction);

// Connects this rank. Time-outs apply to each subgroup, and to each step separately. The result is
// for hierarchical_item(). Errors: as the backends. [blocks: yes]
plait_comm* open_hierarchical(const HierarchicalConfig& config, const plait_comm_setup& setup);

// The functions for the group. It cannot be opened through the item, which does not know the
// subgroups. prepare() trusts the plan that a call is valid, as far as the backends do not check
// it.
const plait_comm_item& hierarchical_item();

}  // namespace plait::runtime
