#include "plugins/comm/shm/rooms.hpp"

#include <algorithm>
#include <bit>
#include <plait/plugin.hpp>

namespace plait::comm_shm {
namespace {

constexpr uint64_t kExtent = 1024 * 1024;  // small rooms share one
constexpr uint64_t kSmall = kExtent / 8;
constexpr uint32_t kMostRooms = 1 << 20;  // of one rank

// Sizes in steps of an eighth, so that a room fits other calls later.
uint64_t size_of_room(uint64_t bytes) {
  const uint64_t step = std::max<uint64_t>(std::bit_floor(bytes) / 8, 4 * kLine);
  return round_up(bytes, step);
}

bool fits(const Room& room, uint64_t size) { return room.bytes >= size && room.bytes <= 2 * size; }

}  // namespace

void Rooms::reserve(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t size = size_of_room(bytes);
  if (std::none_of(all_.begin(), all_.end(), [&](const Room& room) { return fits(room, size); }))
    spare_.push_back(&make(size));
}

Room& Rooms::take(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t size = size_of_room(bytes);
  auto best = spare_.end();
  for (auto i = spare_.begin(); i != spare_.end(); ++i) {
    if (fits(**i, size) && (best == spare_.end() || (*i)->bytes < (*best)->bytes) && (*i)->free())
      best = i;
  }
  if (best == spare_.end()) return make(size);
  Room& room = **best;
  spare_.erase(best);
  return room;
}

Room& Rooms::make(uint64_t bytes) {
  const auto number = static_cast<uint32_t>(all_.size());
  if (number == kMostRooms) fail(PLAIT_ERR_MEMORY, "[shm] too many calls are prepared at once");
  spare_.reserve(std::bit_ceil(all_.size() + 1));  // give_back() must not fail
  Place place{0, round_up(bytes, kGrain), 0, number};
  if (bytes > kSmall) {
    place.extent = file_.grow(place.extent_bytes);
  } else {
    if (extent_ == 0 || used_ + bytes > kExtent) {
      extent_ = file_.grow(kExtent);
      used_ = 0;
    }
    place = {extent_, kExtent, used_, number};
    used_ += round_up(bytes, kLine);
  }
  char* memory = file_.map(place.extent, place.extent_bytes) + place.offset;
  return all_.emplace_back(Room{place, bytes, memory});
}

void Rooms::give_back(Room& room) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(&room);
}

char* Rooms::find(uint32_t rank, const Place& place, uint64_t bytes) {
  if (place.room >= kMostRooms) fail(PLAIT_ERR_PEER, "[shm] a rank names a room out of range");
  const std::lock_guard lock(mutex_);
  std::vector<Found>& rooms = found_[rank];
  if (place.room >= rooms.size()) rooms.resize(place.room + 1);
  Found& room = rooms[place.room];
  if (!room.memory) {
    if (place.offset % kLine || place.offset > place.extent_bytes)
      fail(PLAIT_ERR_PEER, "[shm] a rank names a room outside of its memory");
    room = {file_.map(place.extent, place.extent_bytes) + place.offset,
            place.extent_bytes - place.offset};
  }
  if (bytes > room.bytes) fail(PLAIT_ERR_PEER, "[shm] a rank names a room that is too small");
  return room.memory;
}

}  // namespace plait::comm_shm
