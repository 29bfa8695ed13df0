// Matches the calls of several ranks: one channel for the collectives of a group, one for the
// messages of each pair and direction. Each member publishes the calls it starts, in order, in a
// ring that the others read.
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

  // Gives the call the next number. Throws PLAIT_ERR_STATE if kMostUnderWay calls are under way.
  void enter(CallState& call);
  void leave() { --under_way_; }  // when the call has finished
  // Publishes the call to the other members and wakes the waiting ones.
  void announce(const CallState& call);
  // Reads the calls that the other members have started; returns whether all have started this one.
  // Throws if a member has started a different call.
  bool match(const CallState& call);
  void wake_others() const noexcept;

 private:
  struct Member {
    uint32_t rank, ring_index;
    Ring* ring;     // NULL: does not exist yet
    uint64_t read;  // entries of it that this rank has read
  };
  Ring* ring_of(const Member& member);
  void read(Member& member, uint32_t index);
  [[noreturn]] void disagree(const CallState& call, uint32_t rank, const CallSignature& other);

  GroupEndpoint& endpoint_;
  StagingBuffers& staging_;
  std::vector<Member> members_;
  uint32_t own_ = 0;
  Ring* ring_ = nullptr;
  uint64_t next_ = 0;       // calls entered
  uint64_t under_way_ = 0;  // of these, not finished
  std::array<CallState*, kRing> calls_{};
};

}  // namespace plait::comm_shm
