#include "engine/runtime/control/orders.hpp"

#include <algorithm>

#include "engine/base/error.hpp"

namespace plait::runtime::control {
namespace {

constexpr size_t kMostSeen = 1024;  // numbers of a group that are remembered
constexpr size_t kMostMarks = 64;

}  // namespace

std::string encode(const Position& position) {
  Writer w(Kind::kSequence);
  w.text(position.group);
  for (const Mark& mark : position.marks) w.u64(mark.number).u64(mark.hash);
  return w.done();
}

Position decode_position(const Frame& frame) {
  if (frame.kind != Kind::kSequence) fail_data("[control] a message that was not expected here");
  Reader r(frame.payload);
  Position position;
  position.group = r.text(kMostKey);
  while (!r.empty()) {
    Mark mark;
    mark.number = r.u64();
    mark.hash = r.u64();
    position.marks.push_back(mark);
    if (position.marks.size() > kMostMarks) fail_data("[control] a rank tells of too many calls");
  }
  return position;
}

std::optional<Orders::Difference> Orders::add(uint32_t rank, const Position& position) {
  if (!groups_.contains(position.group) && groups_.size() >= most_groups_)
    fail_data("[control] more groups than there can be");
  Group& group = groups_[position.group];
  for (const Mark& mark : position.marks) {
    const auto [at, first] = group.seen.try_emplace(mark.number, Seen{rank, mark.hash});
    if (at->second.hash != mark.hash)
      return Difference{position.group,
                        mark.number,
                        {std::min(rank, at->second.rank), std::max(rank, at->second.rank)}};
    if (!first) continue;
    group.numbers.push_back(mark.number);
    if (group.numbers.size() <= kMostSeen) continue;
    group.seen.erase(group.numbers.front());
    group.numbers.pop_front();
  }
  return std::nullopt;
}

}  // namespace plait::runtime::control
