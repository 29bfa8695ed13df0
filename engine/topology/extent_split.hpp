// How one extent is split over the members of a group: the elements of each member, and the holders
// of an element.
//
// N elements, G members. Three kinds: even (G divides N), balanced (sizes differ by at most one,
// larger ones first), padded (all equal, elements beyond N are padding). Value type; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

namespace plait::topology {

// [begin, end).
struct Range {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return end <= begin; }
  bool operator==(const Range&) const = default;
};

// The intersection; an empty range is returned with begin = end.
inline Range intersect(const Range& a, const Range& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

class ExtentSplit {
 public:
  ExtentSplit() = default;  // empty extent, one member
  // Errors of all: PLAIT_ERR_INVALID for N < 0 or G < 1. `what` names the extent in messages: "rows
  // of 'fc1.weight'".

  // N/G each. Errors: PLAIT_ERR_CONFIG if G does not divide N; the text names topology.tensor and
  // the nearest sizes.
  static ExtentSplit even(int64_t extent, int32_t members, const std::string& what);
  // N/G each; the first N % G members have one more.
  static ExtentSplit balanced(int64_t extent, int32_t members);
  // The same multiple of `unit` (>= 1) each, the smallest that covers N. The last members may hold
  // padding only.
  static ExtentSplit padded(int64_t extent, int32_t members, int64_t unit);
  // Attention heads: even if G divides N; if N divides G, each head is held by G/N adjacent members
  // (grouped-query attention with fewer heads than members). Errors: PLAIT_ERR_CONFIG otherwise.
  static ExtentSplit heads(int64_t extent, int32_t members, const std::string& what);
  // Every member holds all elements.
  static ExtentSplit replicated(int64_t extent, int32_t members);
  // A flat segment of elements of `element_bytes` over a data group (ZeRO): padded, so that every
  // part begins at a multiple of kShardAlignment bytes. Errors: PLAIT_ERR_INVALID if the element
  // size does not divide it.
  static ExtentSplit flat(int64_t extent, int32_t members, int64_t element_bytes);
  static constexpr int64_t kShardAlignment = 64;

  int64_t extent() const { return extent_; }
  int32_t members() const { return members_; }
  int32_t replicas() const { return replicas_; }  // number of members that hold each element
  int64_t padded_extent() const;                  // extent and padding, each part counted once
  int64_t padding() const { return padded_extent() - extent_; }

  // Member i's elements; the same with padding, in padded coordinates.
  Range range(int32_t member) const {
    const Range shard = padded_range(member);
    return {std::min(shard.begin, extent_), std::min(shard.end, extent_)};
  }
  Range padded_range(int32_t member) const;
  // The members [begin, end) that hold elements of `wanted`, which is clipped to [0, N). For
  // balanced and padded splits they are adjacent; members without such elements are excluded.
  Range holders(const Range& wanted) const;

  bool operator==(const ExtentSplit&) const = default;

 private:
  ExtentSplit(int64_t extent, int32_t members, int64_t shard, int64_t larger, int32_t replicas)
      : extent_(extent), shard_(shard), larger_(larger), members_(members), replicas_(replicas) {}
  int64_t shard_of(int64_t element) const;

  int64_t extent_ = 0;
  int64_t shard_ = 0;   // elements of a part
  int64_t larger_ = 0;  // number of leading parts with one more
  int32_t members_ = 1;
  int32_t replicas_ = 1;  // adjacent members that hold the same part
};

}  // namespace plait::topology
