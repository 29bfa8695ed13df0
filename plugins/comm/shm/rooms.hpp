// Rooms: parts of the shared file that one rank fills and the others read. A rank takes rooms for its own calls here, and finds those
// of the others.
#pragma once

#include <deque>
#include <mutex>
#include <vector>

#include "plugins/comm/shm/file.hpp"

namespace plait::comm_shm {

// One of this rank's rooms.
struct Room {
  Place place;
  uint64_t bytes;
  char* memory;
  RoomHead& head() const { return *reinterpret_cast<RoomHead*>(memory); }
  bool free() const { return head().readers == 0; }
};

class Rooms {
 public:
  explicit Rooms(File& file, uint32_t ranks) : file_(file), found_(ranks) {}

  // A free room of at least `bytes`, new ones from memory that the file grows by. Throws PLAIT_ERR_MEMORY. [thread: any]
  Room& take(uint64_t bytes);
  // Makes sure that there is at least one such room. [thread: any]
  void reserve(uint64_t bytes);
  // Others may still be in it. [thread: any]
  void give_back(Room& room);
  // Memory of another rank's room, of which `bytes` are used. Throws PLAIT_ERR_PEER when it is no room. [thread: any]
  char* find(uint32_t rank, const Place& place, uint64_t bytes);

 private:
  Room& make(uint64_t bytes);

  File& file_;
  std::mutex mutex_;
  // Under the lock.
  std::deque<Room> all_;
  std::vector<Room*> spare_;
  uint64_t extent_ = 0, used_ = 0;  // where small rooms are cut from; 0: no such extent yet

  struct Found {
    char* memory = nullptr;
    uint64_t bytes = 0;
  };
  std::vector<std::vector<Found>> found_;  // (R, rooms)
};

}  // namespace plait::comm_shm
