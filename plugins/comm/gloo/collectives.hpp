// Collectives built from messages. Sums are taken in rank order, each element on one rank, so that
// all ranks hold the same bits.
#pragma once

#include <string>
#include <vector>

#include "plugins/comm/gloo/peer_links.hpp"

namespace plait::comm_gloo {

// The parameters of one execution of a call.
struct CallContext {
  PeerLinks& links;
  const plait_comm_desc& desc;
  const std::string& what;  // for messages
  uint64_t
      // Index of this execution among the executions of its kind on this group (of messages: on
      // this pair and direction).
      number;
  Clock::time_point deadline;
};

// Bytes of scratch memory that an execution needs.
uint64_t scratch_bytes(const plait_comm_desc& desc, uint32_t ranks);

// Executes the call. Throws PLAIT_ERR_PEER.
void execute(const CallContext& context, std::vector<char>& scratch);

}  // namespace plait::comm_gloo
