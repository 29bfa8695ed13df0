#include "plugins/comm/shm/call.hpp"

#include <algorithm>

#include "plugins/comm/shm/channel.hpp"

namespace plait::comm_shm {
namespace {

// A chunk, its copies and its result together lie in the cache next to a core.
constexpr uint64_t kChunkBytes = 256 * 1024, kLeastRowBytes = 4096;
constexpr uint64_t kOwnRooms = 64 * 1024;  // up to here a call has rooms of its own
// In the group's memory the same chunk of all members.
constexpr uint64_t kMemoryChunkBytes = 64 * 1024;

}  // namespace

Cut::Cut(const plait_comm_desc& d, uint32_t members, bool in_memory) {
  const uint64_t size = std::max<uint64_t>(support::dtype_bytes(d.dtype), 1);
  if (in_memory) {
    addressed = false;
    chunk = kMemoryChunkBytes / size;
    count = (d.n + chunk - 1) / chunk;
    rows = stride = 0;
    divided = true;
    return;
  }
  addressed = d.kind == PLAIT_COMM_REDUCE_SCATTER || d.kind == PLAIT_COMM_ALL_TO_ALL;
  rows = addressed ? members - 1 : 1;
  chunk = round_up(std::max(kChunkBytes / rows, kLeastRowBytes) / size, kLine);
  if (chunk >= d.n) chunk = d.n;
  count = d.n == 0 ? 0 : (d.n + chunk - 1) / chunk;
  stride = round_up(chunk * size, kLine);
  divided = d.kind == PLAIT_COMM_ALL_REDUCE && members > 2 && count > 1;
}

Call::Call(Channel& on, Rooms& from, const plait_comm_desc& d, std::string what, const Memory* in)
    : channel(on),
      pool(from),
      desc(d),
      text(std::move(what)),
      memory(in),
      cut(d, on.size(), in),
      parts(on.size()),
      rows(on.size()) {
  slots.resize(cut.count);
  free_slots.reserve(cut.count);
  if (room_bytes() > kOwnRooms) {
    pool.reserve(room_bytes());
    return;
  }
  own_rooms.reserve(2);
  while (own_rooms.size() < 2) own_rooms.push_back(&pool.take(room_bytes()));
}

Call::~Call() {
  leave_room();
  for (Room* one : own_rooms) pool.give_back(*one);
}

uint64_t Call::room_bytes() const { return head_bytes(cut.count) + bytes_of(channel.own()); }

bool Call::stages(uint32_t member) const {
  switch (desc.kind) {
    case PLAIT_COMM_BARRIER:
      return false;
    case PLAIT_COMM_SEND:
    case PLAIT_COMM_RECEIVE:
      return member == 0;
    case PLAIT_COMM_BROADCAST:
      return member == desc.peer;
    default:
      return true;
  }
}

uint64_t Call::takes() const {
  const bool copies_itself = desc.kind == PLAIT_COMM_BROADCAST && channel.own() == desc.peer;
  const bool nothing = desc.kind == PLAIT_COMM_SEND || (copies_itself && desc.in == desc.out);
  return nothing ? 0 : cut.count;
}

void Call::enter_room() {
  for (size_t i = 0; i < own_rooms.size(); ++i) {
    last = (last + 1) % own_rooms.size();
    room = own_rooms[last];
    if (room->free()) return;
  }
  room = &pool.take(room_bytes());
  if (own_rooms.empty()) return;
  own_rooms.push_back(room);
  last = own_rooms.size() - 1;
}

void Call::leave_room() {
  if (room && own_rooms.empty()) pool.give_back(*room);
  room = nullptr;
}

}  // namespace plait::comm_shm
