// How one extent is cut over the members of a group: which elements each holds, and who holds an element.
//
// N elements, G members. Three ways: even (G divides N), spread (sizes differ by one at most, larger ones in front), padded (all
// equal, what lies beyond N is padding). Values, any thread.
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

// What both have; empty ranges come back with begin = end.
inline Range intersect(const Range& a, const Range& b) {
  const int64_t begin = std::max(a.begin, b.begin);
  return {begin, std::max(begin, std::min(a.end, b.end))};
}

class ExtentSplit {
 public:
  ExtentSplit() = default;  // nothing, over one member
  // Errors of all: PLAIT_ERR_INVALID for N < 0 or G < 1. `what` names the extent in messages: "rows of 'fc1.weight'".

  // N/G each. Errors: PLAIT_ERR_CONFIG when G does not divide N; the text names topology.tensor and the nearest sizes.
  static ExtentSplit even(int64_t extent, int32_t members, const std::string& what);
  // N/G each, the first N % G members one more.
  static ExtentSplit balanced(int64_t extent, int32_t members);
  // The same multiple of `unit` (>= 1) each, as small as holds N. The last members may hold padding only.
  static ExtentSplit padded(int64_t extent, int32_t members, int64_t unit);
  // Attention heads: even where G divides N; where N divides G each head is held by G/N neighbours (grouped-query attention
  // with fewer heads than members). Errors: PLAIT_ERR_CONFIG otherwise.
  static ExtentSplit heads(int64_t extent, int32_t members, const std::string& what);
  // Everybody holds everything.
  static ExtentSplit replicated(int64_t extent, int32_t members);
  // A flat segment of elements of `element_bytes` over a data group (ZeRO): padded, so that every part begins on a multiple
  // of kShardAlignment bytes. Errors: PLAIT_ERR_INVALID when the size of an element does not divide it.
  static ExtentSplit flat(int64_t extent, int32_t members, int64_t element_bytes);
  static constexpr int64_t kShardAlignment = 64;

  int64_t extent() const { return extent_; }
  int32_t members() const { return members_; }
  int32_t replicas() const { return replicas_; }  // how many members hold each element
  int64_t padded_extent() const;                  // extent and padding, each part once
  int64_t padding() const { return padded_extent() - extent_; }

  // Member i's elements; its elements with padding, in padded coordinates.
  Range range(int32_t member) const {
    const Range shard = padded_range(member);
    return {std::min(shard.begin, extent_), std::min(shard.end, extent_)};
  }
  Range padded_range(int32_t member) const;
  // The members [begin, end) that hold some of `wanted`, which is clipped to [0, N). For spread and padded cuts they are
  // neighbours; those that hold nothing of it are left out.
  Range holders(const Range& wanted) const;

  bool operator==(const ExtentSplit&) const = default;

 private:
  ExtentSplit(int64_t extent, int32_t members, int64_t shard, int64_t larger, int32_t replicas)
      : extent_(extent), shard_(shard), larger_(larger), members_(members), replicas_(replicas) {}
  int64_t shard_of(int64_t element) const;

  int64_t extent_ = 0;
  int64_t shard_ = 0;   // elements of a part
  int64_t larger_ = 0;  // so many parts in front have one more
  int32_t members_ = 1;
  int32_t replicas_ = 1;  // neighbours that hold the same part
};

}  // namespace plait::topology
