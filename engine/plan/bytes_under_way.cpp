#include "engine/plan/bytes_under_way.hpp"

#include <plait/comm.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <utility>

#include "engine/program/shape.hpp"

namespace plait::plan {
namespace {

// Of the rank's own operand, as far as other ranks read it.
uint64_t provided_bytes(const Collective& c, const CallingGroup& group) {
  if (c.kind == PLAIT_COMM_RECEIVE) return 0;
  if (c.kind == PLAIT_COMM_BROADCAST && c.peer != group.position) return 0;
  const bool to_each = c.kind == PLAIT_COMM_REDUCE_SCATTER || c.kind == PLAIT_COMM_ALL_TO_ALL;
  return c.n * program::dtype_bytes(c.dtype) * (to_each ? group.ranks - 1 : 1);
}

uint64_t rounded(uint64_t bytes) {
  const uint64_t step = std::max<uint64_t>(std::bit_floor(bytes) / 8, 1);
  return (bytes + step - 1) / step * step;
}

// Makes the calls one after the other.
class Count {
 public:
  Count(const RankCalls& calls, const topology::Grid& grid, const CallingGroup& group)
      : calls_(calls), grid_(grid), group_(group) {}

  void run(const EntryCalls& entry) {
    for (const Launch& launch : entry.launches) {
      if (launch.program < 0) continue;
      for (const JobCall& call : calls_.programs[static_cast<size_t>(launch.program)].calls)
        make(call, {call.collective, call.slot < 0 ? launch.slot : call.slot});
    }
  }
  uint64_t bytes() const {
    uint64_t sum = small_;
    for (const auto& [size, of] : sizes_) sum += size * of.most;
    return sum;
  }

 private:
  using Ticket = std::pair<int32_t, int32_t>;  // collective, slot
  struct OfSize {
    uint64_t now = 0, most = 0;
  };

  // Whether it starts and ends before the next one starts.
  bool alone(const Collective& c) const {
    return group_.start == CallStart::kOneByOne ||
           (group_.start == CallStart::kDeferred && may_be_deferred(grid_, c));
  }

  void make(const JobCall& call, const Ticket& ticket) {
    const Collective& c = calls_.collectives[static_cast<size_t>(call.collective)];
    if (c.axis != group_.axis || c.channel != group_.channel) return;
    const uint64_t bytes = provided_bytes(c, group_);
    if (bytes <= kSmallCall) {
      if (seen_.insert(ticket).second) small_ += bytes;
      return;
    }
    OfSize& of = sizes_[rounded(bytes)];
    if (call.starts && alone(c)) {
      of.most = std::max(of.most, of.now + 1);
    } else if (call.starts) {
      if (under_way_.insert(ticket).second) of.most = std::max(of.most, ++of.now);
    } else if (under_way_.erase(ticket) > 0) {
      --of.now;
    }
  }

  const RankCalls& calls_;
  const topology::Grid& grid_;
  const CallingGroup& group_;
  std::set<Ticket> under_way_, seen_;
  std::map<uint64_t, OfSize> sizes_;
  uint64_t small_ = 0;
};

}  // namespace

uint64_t bytes_under_way(const RankCalls& calls, const topology::Grid& grid,
                         const CallingGroup& group) {
  Count count(calls, grid, group);
  // Twice: messages of one entry point may be under way in the next.
  for (int round = 0; round < 2; ++round)
    for (const EntryCalls& entry : calls.entry_points) count.run(entry);
  return count.bytes();
}

}  // namespace plait::plan
