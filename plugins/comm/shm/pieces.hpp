// What a call does with memory. All of it is plain work that waits for nobody.
#pragma once

#include "plugins/comm/shm/call.hpp"

namespace plait::comm_shm {

// Hands over the next chunk of this rank's input.
void stage(Call& call);
// Does one piece of what the others have handed over, if there is one to do; false: none yet, or complete.
bool step(Call& call);
// The members, by rank, that the next piece waits for.
std::vector<bool> awaited(const Call& call);

}  // namespace plait::comm_shm
