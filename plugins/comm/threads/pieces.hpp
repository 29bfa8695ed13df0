// What each rank's thread does of a call: plain work on memory that all ranks see.
#pragma once

#include <atomic>

#include "plugins/comm/threads/hub.hpp"

namespace plait::comm_threads {

// How many pieces a collective has: one a rank, none when there is nothing to do.
bool has_work(const plait_comm_desc& desc);

// The piece of `call`'s rank. Gives up early once `stop` is set.
void do_piece(const Op& op, Call& call, const std::atomic<bool>& stop);

}  // namespace plait::comm_threads
