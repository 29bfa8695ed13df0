#include "engine/topology/extent_split.hpp"

#include <doctest/doctest.h>

#include <vector>

#include "engine/base/error.hpp"

namespace {

using namespace plait::topology;  // NOLINT: a test of this module

std::vector<ExtentSplit> cuts(int64_t n, int32_t members) {
  std::vector<ExtentSplit> all = {ExtentSplit::balanced(n, members),
                                  ExtentSplit::replicated(n, members)};
  if (n % members == 0) all.push_back(ExtentSplit::even(n, members, "rows"));
  if (n > 0 && (n % members == 0 || members % n == 0))
    all.push_back(ExtentSplit::heads(n, members, "heads"));
  for (const int64_t unit : {1, 3, 16}) all.push_back(ExtentSplit::padded(n, members, unit));
  all.push_back(ExtentSplit::flat(n, members, 4));
  return all;
}

}  // namespace

TEST_CASE(
    "extent split: every element has its copies, in order, and holders() is the inverse of "
    "range()") {
  for (int64_t n = 0; n <= 40; ++n)
    for (int32_t members = 1; members <= 9; ++members)
      for (const ExtentSplit& cut : cuts(n, members)) {
        std::vector<int32_t> count(static_cast<size_t>(n), 0);
        int64_t at = 0;
        for (int32_t i = 0; i < members; ++i) {
          const Range range = cut.range(i), stored = cut.padded_range(i);
          REQUIRE(range.size() >= 0);
          REQUIRE(range.end <= n);
          REQUIRE(stored.size() >= range.size());
          if (i % cut.replicas() == 0) {
            REQUIRE(range.begin == at);
            at = range.end;
          }
          for (int64_t e = range.begin; e < range.end; ++e) ++count[static_cast<size_t>(e)];
        }
        REQUIRE(at == n);
        for (const int32_t c : count) REQUIRE(c == cut.replicas());
        REQUIRE(cut.padding() >= 0);
        for (int64_t b = -1; b <= n; ++b)
          for (int64_t e = b; e <= n + 1; ++e) {
            const Range holders = cut.holders({b, e});
            for (int32_t i = 0; i < members; ++i) {
              const bool holds = !intersect(cut.range(i), {b, e}).empty();
              REQUIRE(holds == (i >= holders.begin && i < holders.end));
            }
          }
      }
}

TEST_CASE("extent split: spread has the remainder in front") {
  const ExtentSplit cut = ExtentSplit::balanced(11, 4);
  CHECK(cut.range(0) == Range{0, 3});
  CHECK(cut.range(2) == Range{6, 9});
  CHECK(cut.range(3) == Range{9, 11});
  CHECK(cut.padding() == 0);
}

TEST_CASE("extent split: a padded vocabulary") {
  const ExtentSplit cut = ExtentSplit::padded(50257, 8, 1);
  CHECK(cut.padded_extent() == 50264);
  CHECK(cut.range(7) == Range{43981, 50257});
  CHECK(cut.padded_range(7) == Range{43981, 50264});
  const ExtentSplit few = ExtentSplit::padded(5, 4, 1);  // the last one is only padding
  CHECK(few.range(2) == Range{4, 5});
  CHECK(few.range(3).empty());
  CHECK(few.padded_range(3) == Range{6, 8});
}

TEST_CASE("extent split: flat parts begin at multiples of 64 bytes and waste less than that each") {
  for (const int64_t bytes : {1, 2, 4, 8, 64})
    for (int64_t n = 0; n < 200; ++n)
      for (const int32_t members : {1, 2, 3, 8}) {
        const ExtentSplit cut = ExtentSplit::flat(n, members, bytes);
        for (int32_t i = 0; i < members; ++i) REQUIRE(cut.padded_range(i).begin * bytes % 64 == 0);
        REQUIRE(cut.padded_extent() % (members * 64 / bytes) == 0);
        REQUIRE(cut.padding() < members * 64 / bytes);
      }
  CHECK_THROWS_WITH(
      ExtentSplit::flat(8, 2, 12),
      "[topology] elements of 12 bytes cannot be cut at multiples of 64 bytes; expected a "
      "size that divides it");
}

TEST_CASE("extent split: heads are shared where there are fewer than members") {
  const ExtentSplit cut = ExtentSplit::heads(2, 8, "key heads");
  CHECK(cut.replicas() == 4);
  CHECK(cut.range(3) == Range{0, 1});
  CHECK(cut.range(4) == Range{1, 2});
  CHECK(cut.holders({1, 2}) == Range{4, 8});
  CHECK(ExtentSplit::heads(8, 2, "heads").replicas() == 1);
  CHECK(cut.padded_extent() == 2);
  CHECK(ExtentSplit::replicated(7, 3).padded_extent() == 7);
  CHECK(ExtentSplit::balanced(7, 3).padded_extent() == 7);
  CHECK(ExtentSplit::even(6, 3, "heads").padded_extent() == 6);
  CHECK_THROWS_WITH(
      ExtentSplit::heads(3, 8, "key heads"),
      "[topology] topology.tensor = 8 does not divide the 3 key heads; use tensor = 3, or "
      "8 of them");
}

TEST_CASE("extent split: an extent that cannot be split is named") {
  CHECK_THROWS_WITH(
      ExtentSplit::even(10, 4, "rows of 'fc1.weight'"),
      "[topology] topology.tensor = 4 does not divide the 10 rows of 'fc1.weight'; use "
      "tensor = 5, or 8 or 12 of them");
  CHECK_THROWS_AS(ExtentSplit::balanced(-1, 2), plait::Error);
  CHECK_THROWS_AS(ExtentSplit::balanced(4, 0), plait::Error);
  CHECK_THROWS_AS(ExtentSplit::padded(4, 2, 0), plait::Error);
  CHECK_THROWS_AS(ExtentSplit::padded(INT64_MAX, 2, 1 << 20), plait::Error);
  CHECK_THROWS_WITH(ExtentSplit::balanced(4, 2).range(2),
                    "[topology] member 2 of a group of 2; expected 0 to 1");
  CHECK(ExtentSplit::balanced(INT64_MAX, 3).range(2).end == INT64_MAX);
}
