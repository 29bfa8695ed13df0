// Proves, before anything runs, that the calls of all ranks of a job match and finish.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/job_calls.hpp"
#include "engine/topology/grid.hpp"

namespace plait::plan {

struct JobVerdict {
  std::string fault;  // "" when all calls match and finish
  // The calls of a step, over all ranks: a collective of R ranks is one call, and so is a message.
  uint64_t collectives = 0, messages = 0;
};

// Executes the calls of all ranks symbolically, as the runtime makes them (communicators.hpp,
// plait/comm.h). calls: of each rank of the grid; ranks with equal calls may share an object.
//
//  - A group has its calls in the order in which a member starts them. All members start the same
//    calls: kind, reduction, type, elements, root and name. A start never waits. A collective ends
//    when all members have started it.
//  - Messages are matched by pair of members and order; both ends say the same. A message ends when
//    both ends have started it: a backend may buffer what is sent, but need not.
//  - A rank makes its calls one after the other, and a wait blocks it. It waits for nothing if the
//    call was not started. A call is not started again before its end was waited for.
//  - A collective that may_be_deferred() starts when it is waited for, if the backend of its group
//    does so. Every combination of axes whose groups do is tried.
//  - A session maps shared memory, then runs entry points in any order. Every way from one of them
//    to another is tried once, and nothing is under way behind them but what EntryPoint::leaves
//    says; so it does not matter how many follow each other.
//
// The order in which ranks go on decides nothing: a call that has ended stays so, and no rank takes
// a call from another. So one execution stands for all, whatever the speed of the ranks. Fault: the
// first call that does not match, with both ranks and both calls; or the ranks that wait for each
// other in a circle; or the call that a rank never starts.
// Time: proportional to the calls of all ranks.
JobVerdict verify_job(const topology::Grid& grid, const std::vector<const RankCalls*>& calls);

}  // namespace plait::plan
