// One call as one rank sees it.
#pragma once

#include <string>
#include <vector>

#include "plugins/comm/call.hpp"
#include "plugins/comm/shm/bell.hpp"
#include "plugins/comm/shm/memory.hpp"
#include "plugins/comm/shm/rooms.hpp"

namespace plait::comm_shm {

class Channel;

// How a call is cut: chunks of rows. Follows from what all members agree on, so it is the same everywhere.
struct Cut {
  bool addressed;   // each other member is handed a row of its own, else all the same one
  uint64_t rows;    // that a rank hands over: 1, or one for each other member
  uint64_t chunk;   // elements of one row
  uint64_t stride;  // bytes of one row of a chunk
  uint64_t count;   // chunks
  bool divided;     // all_reduce: each chunk is reduced by one member, for the others to copy

  // in_memory: of the group, so there is nothing to hand over.
  Cut(const plait_comm_desc& desc, uint32_t members, bool in_memory);
  uint64_t slot_bytes() const { return rows * stride; }
};

// What a rank knows of another member's part in a call, and of its own.
struct Part {
  char* memory = nullptr;          // its room; NULL: it has not started the call yet
  uint64_t staged = 0, taken = 0;  // as last seen
  RoomHead& head() const { return *reinterpret_cast<RoomHead*>(memory); }
};

struct Call {
  // Takes rooms. in: the group's memory that the call is carried out in, or NULL.
  Call(Channel& on, Rooms& from, const plait_comm_desc& d, std::string what, const Memory* in);
  ~Call();
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  // Whether a member hands data over; bytes of its room behind the head.
  bool stages(uint32_t member) const;
  uint64_t bytes_of(uint32_t member) const {
    return stages(member) ? cut.count * cut.slot_bytes() : 0;
  }
  uint64_t takes() const;  // chunks that this rank reduces or copies
  bool many() const { return cut.count > 1; }
  bool complete() const { return unknown == 0 && taken == takes(); }
  uint64_t room_bytes() const;
  // Takes a room that nobody is in any more; gives it back, though others may still be in it.
  void enter_room();
  void leave_room();

  Channel& channel;
  Rooms& pool;
  const plait_comm_desc desc;
  const std::string text;  // for messages
  const Memory* const memory;
  const Cut cut;

  // Of a small call: two, so that it can start while others are still in one. Large calls share theirs.
  std::vector<Room*> own_rooms;
  size_t last = 0;  // the one used last

  // Of one execution.
  Room* room = nullptr;
  uint64_t number = 0;  // on its channel
  Clock::time_point deadline;
  std::vector<Part> parts;  // (M)
  uint32_t unknown = 0;     // members that have not started it
  uint64_t staged = 0;      // chunks this rank has handed over
  uint64_t taken = 0;       // chunks it is through with
  uint64_t next_own = 0;    // divided: the next chunk that is its own to reduce
  // Slots of the room: what chunk lies where, which are free again, how many of the first chunks nobody needs any more.
  std::vector<uint32_t> slots, free_slots;
  uint64_t freed = 0;
  uint32_t fresh_slot = 0;
  std::vector<const void*> rows;  // (M) scratch
};

}  // namespace plait::comm_shm
