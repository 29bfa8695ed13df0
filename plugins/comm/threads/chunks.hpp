// The work of each rank's thread in a call: plain copies and sums on memory that all ranks see.
#pragma once

#include <atomic>

#include "plugins/comm/threads/group_state.hpp"

namespace plait::comm_threads {

// Number of chunks of a collective: one per rank, none if there is nothing to do.
bool has_work(const plait_comm_desc& desc);

// Processes the chunk of `call`'s rank. Returns early once `stop` is set.
void run_chunk(const MatchedCalls& matched, PendingCall& call, const std::atomic<bool>& stop);

}  // namespace plait::comm_threads
