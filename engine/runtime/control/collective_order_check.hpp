// Checks that the members of each group start the same calls in the same order, from the reports in
// their heartbeats.
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

// kGroupProgress: the position of a rank in the calls of a group.
struct GroupProgress {
  std::string group;
  std::vector<PrefixHash> prefix_hashes;  // by number
};
std::string encode(const GroupProgress& progress);
GroupProgress decode_progress(const Frame& frame);  // PLAIT_ERR_DATA for any other frame

class CollectiveOrderCheck {
 public:
  // Two ranks that have started different calls in a group, at this number or before.
  struct Difference {
    std::string group;
    uint64_t number = 0;
    uint32_t ranks[2] = {0, 0};
  };

  explicit CollectiveOrderCheck(size_t max_groups) : max_groups_(max_groups) {}
  // The first difference to earlier reports, if any. Errors: PLAIT_ERR_DATA for more groups than
  // possible.
  std::optional<Difference> add(uint32_t rank, const GroupProgress& progress);

 private:
  struct Seen {
    uint32_t rank = 0;  // the first rank to report it
    uint64_t hash = 0;
  };
  struct GroupHistory {
    std::unordered_map<uint64_t, Seen> seen;  // by number
    std::deque<uint64_t> numbers;             // of these, in order of arrival
  };
  const size_t max_groups_;
  std::unordered_map<std::string, GroupHistory> groups_;
};

}  // namespace plait::runtime::control
