// A group whose members are on several machines, several of them on one: those of a machine exchange through the nearest backend
// that reaches them, machines through the network. To its user it is one backend more.
//
//   near   the members of this rank's host; nobody, where it is alone there
//   far    one member of each host: those of the same place, where all hosts have equally many; else their first ones, the leaders
//   after  the same members as near, for what follows on far: it waits longer than far does, and that longer than near
//   pairs  all members, over the network: for what goes from one rank to one other, and what composing would only make slower
//
// A call is a list of steps on these (composed_steps.hpp), which the group's own thread carries out; calls come one after the
// other. Sends and receives are those of the part that reaches the peer, and wait for no other call. All of it is for host memory.
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

struct Composition {
  std::string name;  // how messages call the whole
  CommBackend near;  // of this rank's host
  CommBackend far;   // reaches everywhere
  bool pairs =
      true;  // whether there will be calls for which needs_pairs() is true; the same on all ranks
};

// Whether a call goes over the network between all members: messages between hosts, all_to_all, and sums of 16-bit floats, which
// are to be rounded once.
bool needs_pairs(uint32_t kind, uint32_t dtype, uint32_t reduction);

// Connects this rank. Time-outs hold for each part, and for each step anew. The result is for composed_item(). Errors: those of the
// backends. [blocks: yes]
plait_comm* open_composed(const Composition& composition, const plait_comm_setup& setup);

// What to do with it. It cannot be opened through the item, which says nothing of its parts. prepare() takes the plan's word that
// a call makes sense, as far as the backends do not look.
const plait_comm_item& composed_item();

}  // namespace plait::runtime
