#include "engine/topology/grid.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>

#include "engine/base/error.hpp"

namespace {

using namespace plait::topology;  // NOLINT: a test of this module

using Ranks = std::vector<int32_t>;

// Every grid of 1 to 16 ranks.
std::vector<Grid> small_grids() {
  std::vector<Grid> grids;
  for (int64_t n = 1; n <= 16; ++n)
    for (int64_t p = 1; p <= n; ++p)
      for (int64_t d = 1; d <= n / p; ++d)
        if (n % p == 0 && n / p % d == 0) grids.emplace_back(p, d, n / p / d);
  return grids;
}

}  // namespace

TEST_CASE("grid: ranks and coordinates are one to one, tensor fastest") {
  const std::vector<Grid> grids = small_grids();
  CHECK(grids.size() > 80);
  for (const Grid& grid : grids) {
    int32_t expected = 0;
    for (int32_t p = 0; p < grid.pipeline(); ++p)
      for (int32_t d = 0; d < grid.data(); ++d)
        for (int32_t t = 0; t < grid.tensor(); ++t, ++expected) {
          REQUIRE(grid.rank({p, d, t}) == expected);
          REQUIRE(grid.at(expected) == Coordinates{p, d, t});
        }
    REQUIRE(expected == grid.ranks());
  }
}

TEST_CASE("grid: the groups of an axis are a partition, and members differ in that axis alone") {
  for (const Grid& grid : small_grids()) {
    for (const Axis axis : kAxes) {
      std::set<int32_t> seen;
      int32_t lowest = -1;
      for (int32_t i = 0; i < grid.groups(axis); ++i) {
        const ProcessGroup group = grid.group(axis, i);
        REQUIRE(group.members.front() > lowest);
        lowest = group.members.front();
        REQUIRE(std::is_sorted(group.members.begin(), group.members.end()));
        const Coordinates a = grid.at(group.members.front());
        for (const int32_t member : group.members) {
          REQUIRE(seen.insert(member).second);
          const Coordinates b = grid.at(member);
          const bool all = axis == Axis::kWorld, model = axis == Axis::kModel;
          const bool line = axis == Axis::kPipeline || axis == Axis::kEnds;
          if (!all && !model && !line) REQUIRE(a.pipeline == b.pipeline);
          if (!all && axis != Axis::kData) REQUIRE(a.data == b.data);
          if (!all && !model && axis != Axis::kTensor) REQUIRE(a.tensor == b.tensor);
        }
      }
      const bool ends = axis == Axis::kEnds && grid.pipeline() > 2;
      REQUIRE(static_cast<int32_t>(seen.size()) ==
              (ends ? 2 * grid.data() * grid.tensor() : grid.ranks()));
    }
  }
}

TEST_CASE("grid: a rank's groups are all groups that contain it, in the same order") {
  for (const Grid& grid : small_grids()) {
    const std::vector<ProcessGroup> all = grid.all_groups();
    for (int32_t rank = 0; rank < grid.ranks(); ++rank) {
      std::vector<ProcessGroup> having;
      for (const ProcessGroup& group : all)
        if (group.position(rank) >= 0) having.push_back(group);
      REQUIRE(grid.groups_of(rank) == having);
    }
  }
}

TEST_CASE("grid: every group of an axis has the axis' size and carries its name") {
  const std::pair<Axis, std::string> names[] = {
      {Axis::kTensor, "tensor"}, {Axis::kData, "data"},   {Axis::kPipeline, "pipeline"},
      {Axis::kEnds, "ends"},     {Axis::kModel, "model"}, {Axis::kWorld, "world"}};
  for (const auto& [axis, name] : names) {
    CHECK(axis_name(axis) == name);
    for (const Grid& grid : small_grids())
      for (int32_t i = 0; i < grid.groups(axis); ++i) {
        const ProcessGroup group = grid.group(axis, i);
        REQUIRE(group.size() == grid.group_size(axis));
        REQUIRE(group.name() == name + "." + std::to_string(i));
        REQUIRE(grid.group_index(axis, grid.at(group.members.front())) == i);
      }
  }
}

TEST_CASE("grid: known members of 2 x 2 x 2") {
  const Grid grid(2, 2, 2);
  CHECK(grid.group(Axis::kTensor, 1).members == Ranks{2, 3});
  CHECK(grid.group(Axis::kData, 0).members == Ranks{0, 2});
  CHECK(grid.group(Axis::kData, 3).members == Ranks{5, 7});
  CHECK(grid.group(Axis::kPipeline, 2).members == Ranks{2, 6});
  CHECK(grid.group(Axis::kEnds, 2).members == Ranks{2, 6});
  CHECK(grid.group(Axis::kModel, 1).members == Ranks{2, 3, 6, 7});
  CHECK(grid.group(Axis::kWorld, 0).size() == 8);
  CHECK(grid.group(Axis::kModel, 1).position(6) == 2);
  CHECK(grid.group(Axis::kModel, 1).position(5) == -1);
  CHECK(grid.group(Axis::kModel, 1).name() == "model.1");
  CHECK(Grid(4, 1, 2).group(Axis::kEnds, 1).members == Ranks{1, 7});
  CHECK(Grid(4, 1, 2).groups_of(2).size() == 5);  // a middle stage has no ends
}

TEST_CASE("grid: a coordinate out of range is named") {
  const Grid grid(2, 1, 4);
  CHECK_THROWS_WITH(
      grid.at(8),
      "[topology] rank 8 is not in the grid pipeline=2 data=1 tensor=4; expected 0 to 7");
  CHECK_THROWS_AS(grid.at(-1), plait::Error);
  CHECK_THROWS_WITH(
      grid.rank({0, 1, 0}),
      "[topology] no rank at pipeline=0 data=1 tensor=0 of the grid pipeline=2 data=1 "
      "tensor=4; each counts from 0 to its size - 1");
  CHECK_THROWS_WITH(grid.group(Axis::kData, 8),
                    "[topology] there is no group data.8 in the grid pipeline=2 data=1 tensor=4; "
                    "expected 0 to 7");
  CHECK_THROWS_WITH(Grid(0, 1, 1),
                    "[topology] topology.pipeline: 0 ranks, expected 1 to 1048576; use 1 for an "
                    "axis that is not used");
  CHECK_THROWS_AS(Grid(1, INT64_MIN, 1), plait::Error);
  CHECK_THROWS_AS(Grid(1 << 20, 1 << 20, 1 << 20), plait::Error);
  CHECK(Grid(1 << 10, 1 << 5, 1 << 5).ranks() == 1 << 20);
}
