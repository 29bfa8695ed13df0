#include "engine/runtime/control/collective_order_check.hpp"

#include <algorithm>

#include "engine/base/error.hpp"

namespace plait::runtime::control {
namespace {

constexpr size_t kMaxSeen = 1024;  // numbers remembered for each group
constexpr size_t kMaxMarks = 64;

}  // namespace

std::string encode(const GroupProgress& progress) {
  FrameWriter w(MessageKind::kGroupProgress);
  w.text(progress.group);
  for (const PrefixHash& prefix : progress.prefix_hashes) w.u64(prefix.number).u64(prefix.hash);
  return w.done();
}

GroupProgress decode_progress(const Frame& frame) {
  if (frame.kind != MessageKind::kGroupProgress) fail_data("[control] an unexpected message");
  PayloadReader r(frame.payload);
  GroupProgress progress;
  progress.group = r.text(kMaxKey);
  while (!r.empty()) {
    PrefixHash prefix;
    prefix.number = r.u64();
    prefix.hash = r.u64();
    progress.prefix_hashes.push_back(prefix);
    if (progress.prefix_hashes.size() > kMaxMarks)
      fail_data("[control] a rank reports too many calls");
  }
  return progress;
}

std::optional<CollectiveOrderCheck::Difference> CollectiveOrderCheck::add(
    uint32_t rank, const GroupProgress& progress) {
  if (!groups_.contains(progress.group) && groups_.size() >= max_groups_)
    fail_data("[control] more groups than possible");
  GroupHistory& group = groups_[progress.group];
  for (const PrefixHash& prefix : progress.prefix_hashes) {
    const auto [at, first] = group.seen.try_emplace(prefix.number, Seen{rank, prefix.hash});
    if (at->second.hash != prefix.hash)
      return Difference{progress.group,
                        prefix.number,
                        {std::min(rank, at->second.rank), std::max(rank, at->second.rank)}};
    if (!first) continue;
    group.numbers.push_back(prefix.number);
    if (group.numbers.size() <= kMaxSeen) continue;
    group.seen.erase(group.numbers.front());
    group.numbers.pop_front();
  }
  return std::nullopt;
}

}  // namespace plait::runtime::control
