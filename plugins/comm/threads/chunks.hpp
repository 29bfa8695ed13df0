// What each rank's thread does of a call: plain work on memory that all ranks see.
#pragma once

#include <atomic>

#include "plugins/comm/threads/group_state.hpp"

namespace plait::comm_threads {

// How many chunks a collective has: one a rank, none when there is nothing to do.
bool has_work(const plait_comm_desc& desc);

// The chunk of `call`'s rank. Gives up early once `stop` is set.
void run_chunk(const MatchedCalls& matched, PendingCall& call, const std::atomic<bool>& stop);

}  // namespace plait::comm_threads
