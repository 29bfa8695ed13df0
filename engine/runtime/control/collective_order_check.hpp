// Whether the members of each group start the same calls in the same order, from what they tell of them with their heartbeats.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/runtime/collective_log.hpp"
#include "engine/runtime/control/wire.hpp"

namespace plait::runtime::control {

// kGroupProgress: where a rank is in the calls of a group.
struct GroupProgress {
  std::string group;
  std::vector<PrefixHash> prefix_hashes;  // by number
};
std::string encode(const GroupProgress& progress);
GroupProgress decode_progress(const Frame& frame);  // PLAIT_ERR_DATA for anything else

class CollectiveOrderCheck {
 public:
  // Two ranks whose calls of a group differ, this one or one before it.
  struct Difference {
    std::string group;
    uint64_t number = 0;
    uint32_t ranks[2] = {0, 0};
  };

  explicit CollectiveOrderCheck(size_t max_groups) : max_groups_(max_groups) {}
  // The first difference to what others have told, if there is one. Errors: PLAIT_ERR_DATA for more groups than there can be.
  std::optional<Difference> add(uint32_t rank, const GroupProgress& progress);

 private:
  struct Seen {
    uint32_t rank = 0;  // who told it first
    uint64_t hash = 0;
  };
  struct GroupHistory {
    std::unordered_map<uint64_t, Seen> seen;  // by number
    std::deque<uint64_t> numbers;             // of those, as they came
  };
  const size_t max_groups_;
  std::unordered_map<std::string, GroupHistory> groups_;
};

}  // namespace plait::runtime::control
