// Starting and finishing calls.
//
// Why no order of finish() among several groups can lock up: start() hands over all of this rank's input, into a room of the call's
// own that nobody needs any more (or a new one), and waits for nobody. finish() waits for three things only: that the others have
// started the call; that they have handed over, which they do in start(); that a member who has begun to reduce a chunk ends that
// piece of plain work. What a member has not begun to reduce, whoever waits reduces in its place. So nobody ever waits for a
// finish() of another rank.
//
// An all-reduce in place in the group's memory hands nothing over: who starts it says that the others may read and write what it has
// there. All divide the chunks as above, and each result goes straight to all members.
//
// Memory: small calls have two rooms of the size of their input each; large ones share rooms, as many as there are calls under way,
// and one more when other ranks lag behind. So the first steps of a run may still grow the file, in start(). Ranks that run side by
// side use only the first few slots of a room, which stay in the caches.
#pragma once

#include <map>

#include "plugins/comm/shm/call.hpp"
#include "plugins/comm/shm/channel.hpp"
#include "plugins/comm/shm/end.hpp"
#include "plugins/comm/shm/memories.hpp"

namespace plait::comm_shm {

// The channels and rooms of one end.
class Exchange {
 public:
  explicit Exchange(End& end);

  // [thread: owner]
  std::unique_ptr<Call> prepare(const plait_comm_desc& desc, const std::string& text);
  // plait_comm_item.memory. [thread: owner]
  void* memory(const Host& host, uint64_t bytes);
  void start(Call& call);
  void finish(Call& call);

 private:
  template <class F>
  void or_fail_all(F&& f);
  void begin(Call& call);
  void hand_over(Call& call);
  void look_around(Call& call);

  const Memory* memory_of(const plait_comm_desc& desc) const;
  std::vector<uint64_t> gather(const std::string& what, uint64_t first, uint64_t second);

  End& end_;
  Rooms rooms_;
  Memories memories_;
  std::map<std::pair<uint32_t, uint32_t>, Channel> channels_;
};

}  // namespace plait::comm_shm
