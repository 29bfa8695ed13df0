// A group whose members are on several machines, several of them on one: those of a machine exchange through the nearest backend
// that reaches them, machines through the network. To its user it is one backend more.
//
//   intra            the members of this rank's host; nobody, where it is alone there
//   inter            one member of each host: those of equal local index where all hosts have
//                    equally many members; else the first of each, the leaders
//   intra_broadcast  the members of intra, for the steps after inter: its time-out is longer than
//                    that of inter, which is longer than that of intra
//   flat             all members, over the network: for what goes from one rank to one other, and calls that a hierarchical group would only make slower
//
// A call is a list of steps on these (hierarchical_steps.hpp), which the group's own thread carries out; calls come one after the
// other. Sends and receives are those of the subgroup that reaches the peer, and wait for no other call. All of it is for host memory.
#pragma once

#include <plait/comm.h>

#include <string>

namespace plait::runtime {

// What one part of the group is opened with. Borrowed until the group is open; the item and its host for longer.
struct CommBackend {
  const plait_comm_item* item = nullptr;
  const plait_host* host = nullptr;
  const plait_options* options = nullptr;
  std::string plugin;  // for messages
};

struct HierarchicalConfig {
  std::string name;   // how messages call the whole
  CommBackend intra;  // of this rank's host
  CommBackend inter;  // reaches everywhere
  bool flat =
      true;  // whether there will be calls for which needs_flat_group() is true; the same on all ranks
};

// Whether a call goes over the network between all members: messages between hosts, all_to_all, and sums of 16-bit floats, which
// are to be rounded once.
bool needs_flat_group(uint32_t kind, uint32_t dtype, uint32_t reduction);

// Connects this rank. Time-outs hold for each part, and for each step anew. The result is for hierarchical_item(). Errors: those of the
// backends. [blocks: yes]
plait_comm* open_hierarchical(const HierarchicalConfig& config, const plait_comm_setup& setup);

// What to do with it. It cannot be opened through the item, which says nothing of its parts. prepare() takes the plan's word that
// a call makes sense, as far as the backends do not look.
const plait_comm_item& hierarchical_item();

}  // namespace plait::runtime
