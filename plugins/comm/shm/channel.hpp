// Where calls of several ranks are matched: one channel for the collectives of a group, one for the messages of each pair and
// direction. Each member writes down what it starts, in order, in a ring that the others read.
#pragma once

#include <array>
#include <vector>

#include "plugins/comm/shm/call_state.hpp"
#include "plugins/comm/shm/endpoint.hpp"

namespace plait::comm_shm {

class Channel {
 public:
  // The channel of a call: of all members, or of sender and receiver.
  Channel(GroupEndpoint& endpoint, StagingBuffers& staging, const plait_comm_desc& desc);

  GroupEndpoint& endpoint() const { return endpoint_; }
  uint32_t size() const { return static_cast<uint32_t>(members_.size()); }
  uint32_t own() const { return own_; }  // this rank's index
  uint32_t rank(uint32_t member) const { return members_[member].rank; }

  // Gives the call the next number. Throws PLAIT_ERR_STATE when too many are under way.
  void enter(CallState& call);
  // Shows it to the others; wakes those who wait for it.
  void announce(const CallState& call);
  // Reads what the others have started; whether all have started this one. Throws when somebody has started another.
  bool match(const CallState& call);
  void wake_others() const noexcept;

 private:
  struct Member {
    uint32_t rank, ring_index;
    Ring* ring;     // NULL: not there yet
    uint64_t read;  // entries read of it
  };
  Ring* ring_of(const Member& member);
  void read(Member& member, uint32_t index);
  void free_entries();
  [[noreturn]] void disagree(const CallState& call, uint32_t rank, const CallSignature& other);

  GroupEndpoint& endpoint_;
  StagingBuffers& staging_;
  std::vector<Member> members_;
  uint32_t own_ = 0;
  Ring* ring_ = nullptr;
  uint64_t next_ = 0;        // calls entered
  uint64_t window_end_ = 0;  // how many may be, before somebody must have read more
  std::array<CallState*, kRing> calls_{};
};

}  // namespace plait::comm_shm
