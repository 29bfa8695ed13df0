// The kinds of calls, made of messages. Sums are taken in the order of the ranks and in one place per element, so that all ranks hold
// the same bits.
#pragma once

#include <string>
#include <vector>

#include "plugins/comm/gloo/peer_links.hpp"

namespace plait::comm_gloo {

// What one execution of a call needs to know.
struct CallContext {
  PeerLinks& links;
  const plait_comm_desc& desc;
  const std::string& what;  // for messages
  uint64_t
      number;  // of this execution among those of its kind on this group (of messages: of this pair and direction)
  Clock::time_point deadline;
};

// Bytes of scratch that an execution needs.
uint64_t scratch_bytes(const plait_comm_desc& desc, uint32_t ranks);

// Carries the call out. Throws PLAIT_ERR_PEER.
void execute(const CallContext& context, std::vector<char>& scratch);

}  // namespace plait::comm_gloo
