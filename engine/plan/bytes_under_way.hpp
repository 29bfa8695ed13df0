// How much memory a backend needs for the calls of a group.
#pragma once

#include <cstdint>

#include "engine/plan/job_calls.hpp"
#include "engine/topology/grid.hpp"

namespace plait::plan {

// When a group starts a call of a program.
enum class CallStart : uint8_t {
  kAtOnce,
  kDeferred,  // what may_be_deferred() when it is waited for
  kOneByOne,  // when the call before it has ended
};

// A group of a rank.
struct CallingGroup {
  topology::Axis axis = topology::Axis::kData;
  uint32_t channel = 0;
  uint32_t position = 0, ranks = 1;  // of this rank among its members
  CallStart start = CallStart::kAtOnce;
};

// The bytes that the rank provides to calls that may be under way at once, at most. Backends keep
// memory by size, so each size, rounded up to an eighth of its power of two, counts as often as
// calls of that size are ever under way together; calls of at most kSmallCall bytes count all.
uint64_t bytes_under_way(const RankCalls& calls, const topology::Grid& grid,
                         const CallingGroup& group);
inline constexpr uint64_t kSmallCall = 64 * 1024;

}  // namespace plait::plan
