// The copies and reductions of a call. None of them waits.
#pragma once

#include "plugins/comm/shm/call_state.hpp"

namespace plait::comm_shm {

// Stages the next chunk of this rank's input.
void stage(CallState& call);
// Consumes one chunk that the peers have staged; false: none is ready, or the call is complete.
bool step(CallState& call);
// The members, by rank, that the next chunk waits for.
std::vector<bool> awaited(const CallState& call);

}  // namespace plait::comm_shm
