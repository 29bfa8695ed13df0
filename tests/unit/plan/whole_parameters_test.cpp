// ZeRO for whole parameters: how they are packed into buckets.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

#include "engine/plan/whole_parameters.hpp"

using namespace plait::plan;

namespace {

std::vector<PackItem> items_of(const std::vector<int64_t>& sizes) {
  std::vector<PackItem> items;
  for (const int64_t n : sizes) items.push_back({n, true});
  return items;
}

// Every item is in one bucket, inside its owner's shard, and overlaps no other.
void check(const std::vector<PackItem>& items, int64_t replicas,
           const std::vector<PackedBucket>& buckets, const std::vector<int64_t>& loads) {
  std::set<size_t> seen;
  std::vector<int64_t> owned(static_cast<size_t>(replicas), 0);
  for (const PackedBucket& b : buckets) {
    REQUIRE(b.members.size() == b.places.size());
    std::vector<std::pair<int64_t, int64_t>> runs;
    for (size_t i = 0; i < b.members.size(); ++i) {
      CHECK(seen.insert(b.members[i]).second);
      const int64_t begin = b.places[i].offset, end = begin + items[b.members[i]].elements;
      const int64_t owner = b.places[i].owner;
      owned[static_cast<size_t>(owner)] += end - begin;
      runs.emplace_back(begin, end);
      if (b.owner >= 0) {
        CHECK(b.members.size() == 1);
        CHECK(owner == b.owner);
      } else {
        CHECK(begin >= owner * b.shard);
        CHECK(end <= (owner + 1) * b.shard);
      }
      CHECK(end <= b.elements(replicas));
    }
    CHECK(std::is_sorted(runs.begin(), runs.end()));
    for (size_t i = 1; i < runs.size(); ++i) CHECK(runs[i].first >= runs[i - 1].second);
  }
  CHECK(seen.size() == items.size());
  CHECK(owned == loads);
}

}  // namespace

TEST_CASE("equal parameters: as many for each replica, without padding") {
  std::vector<int64_t> loads(4, 0);
  const auto items = items_of({64, 64, 64, 64, 64, 64, 64, 64});
  const auto buckets = pack_whole(items, {4, 64}, loads);
  check(items, 4, buckets, loads);
  CHECK(buckets.size() == 2);  // four of them divide evenly, and are enough
  for (const PackedBucket& b : buckets) CHECK(b.shard == 64);
  CHECK(loads == std::vector<int64_t>(4, 128));
}

TEST_CASE("one parameter larger than all others together has an owner and no padding") {
  std::vector<int64_t> loads(4, 0);
  const auto items = items_of({10000, 64, 64, 64, 64});
  const auto buckets = pack_whole(items, {4, 1 << 20}, loads);
  check(items, 4, buckets, loads);
  // It is small beside a bucket: padding is cheaper than another collective.
  CHECK(buckets.size() == 1);
  loads.assign(4, 0);
  const auto again = pack_whole(items, {4, 512}, loads);
  check(items, 4, again, loads);
  REQUIRE(again.size() == 2);
  CHECK(again[0].owner == 0);
  CHECK(again[0].elements(4) == 10000);
  CHECK(again[1].shard == 64);
}

TEST_CASE("the largest are placed first, and padding of a sixteenth of a bucket is borne") {
  std::vector<int64_t> loads(2, 0);
  const auto rising = pack_whole(items_of({64, 64, 128}), {2, 1 << 20}, loads);
  REQUIRE(rising.size() == 1);
  CHECK(rising[0].shard == 128);
  const auto owner = [](int64_t elements) {
    std::vector<int64_t> none(2, 0);
    return pack_whole(items_of({elements}), {2, 1024}, none).at(0).owner;
  };
  CHECK(owner(64) == -1);
  CHECK(owner(65) == 0);
}

TEST_CASE("the replica with the least gets the next one") {
  std::vector<int64_t> loads{500, 100, 0};
  const auto items = items_of({64, 64, 64});
  for (size_t i = 0; i < 3; ++i) {
    const auto buckets = pack_whole({items[i]}, {3, 1}, loads);
    REQUIRE(buckets.size() == 1);
    CHECK(buckets[0].owner == (i < 2 ? 2 : 1));
  }
  CHECK(loads == std::vector<int64_t>{500, 164, 128});
}

TEST_CASE("a bucket ends between layers, where it divides evenly") {
  std::vector<int64_t> loads(2, 0);
  std::vector<PackItem> items = items_of({64, 64, 64, 64, 64, 64, 64, 64, 64});
  for (size_t i = 0; i < items.size(); ++i) items[i].may_end = i % 3 == 0;
  const auto buckets = pack_whole(items, {2, 64}, loads);
  check(items, 2, buckets, loads);
  REQUIRE(!buckets.empty());
  CHECK(buckets[0].members.size() == 6);  // three do not divide evenly, two layers do
  CHECK(buckets[0].shard == 192);
}

TEST_CASE("any sizes: nothing overlaps, and padding stays below a quarter or a sixteenth bucket") {
  uint32_t state = 7;
  const auto next = [&](uint32_t n) {
    return (state = state * 1664525u + 1013904223u) / 65536 % n;
  };
  for (int round = 0; round < 300; ++round) {
    const int64_t replicas = 1 + next(8);
    std::vector<int64_t> sizes;
    for (uint32_t n = next(40); n-- > 0;) sizes.push_back(16 * (next(3) ? next(20) : next(900)));
    std::vector<PackItem> items = items_of(sizes);
    for (PackItem& item : items) item.may_end = next(2) != 0;
    const PackLimits limits{replicas, 16 * static_cast<int64_t>(1 + next(300))};
    std::vector<int64_t> loads(static_cast<size_t>(replicas), 0);
    const auto buckets = pack_whole(items, limits, loads);
    CAPTURE(round);
    check(items, replicas, buckets, loads);
    for (const PackedBucket& b : buckets) {
      const int64_t sum =
          std::accumulate(b.members.begin(), b.members.end(), int64_t{0},
                          [&](int64_t s, size_t i) { return s + items[i].elements; });
      CHECK(b.elements(replicas) - sum <= std::max(sum / 4, limits.bucket / 16));
    }
  }
}
