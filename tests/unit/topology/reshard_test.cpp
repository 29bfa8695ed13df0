#include "engine/topology/reshard.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

#include "engine/base/error.hpp"
#include "engine/topology/grid.hpp"

namespace {

using namespace plait::topology;  // NOLINT: a test of this module

using Random = std::mt19937_64;
int64_t draw_svg(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

// A layout of one parameter over a random grid, like a plan would create it: sharded by tensor or
// not, flat shards or not, the parameter somewhere in a flat group; only one stage has it.
ShardLayout random_layout(const Extent& shape, Random& random) {
  const Grid grid(draw_svg(random, 1, 2), draw_svg(random, 1, 4), draw_svg(random, 1, 4));
  const int32_t stage = static_cast<int32_t>(draw_svg(random, 0, grid.pipeline() - 1));
  const int32_t dimension =
      static_cast<int32_t>(draw_svg(random, -1, static_cast<int64_t>(shape.size()) - 1));
  const bool zero = draw_svg(random, 0, 1) == 1;
  const int64_t at = draw_svg(random, 0, 40), behind = draw_svg(random, 0, 40);
  std::vector<Shard> shards;
  const auto tensor_shards_of = [&](int32_t data) {
    const ProcessGroup group = grid.group(Axis::kTensor, stage * grid.data() + data);
    const int64_t n = dimension < 0 ? 0 : shape[static_cast<size_t>(dimension)];
    return tensor_shards(shape, dimension,
                         dimension < 0 ? ExtentSplit() : ExtentSplit::padded(n, grid.tensor(), 1),
                         group.members);
  };
  for (int32_t data = 0; data < (zero ? 1 : grid.data()); ++data)
    for (const Shard& shard : tensor_shards_of(data)) {
      if (!zero) {
        shards.push_back(shard);
        continue;
      }
      const Coordinates c = grid.at(shard.rank);
      const ExtentSplit cut = ExtentSplit::flat(at + elements(shard.box) + behind, grid.data(), 16);
      const ProcessGroup group = grid.group(Axis::kData, c.pipeline * grid.tensor() + c.tensor);
      for (const Shard& part : flat_shards(shard, at, cut, group.members)) shards.push_back(part);
    }
  return ShardLayout(shape, std::move(shards));
}

// The memory of each shard, with global element numbers if `filled`, else -1.
std::vector<std::vector<int64_t>> memory(const ShardLayout& layout, bool filled) {
  std::vector<std::vector<int64_t>> all;
  for (const Shard& shard : layout.shards()) {
    std::vector<int64_t>& of_shard = all.emplace_back(static_cast<size_t>(shard.flat.size()), -1);
    for (int64_t i = 0; filled && i < shard.flat.size(); ++i) {
      // The global number of local element i, computed slowly: digits of its index in the box.
      int64_t rest = shard.flat.begin + i, number = 0, stride = 1;
      for (size_t d = shard.box.extent.size(); d-- > 0;) {
        number += (shard.box.offset[d] + rest % shard.box.extent[d]) * stride;
        rest /= shard.box.extent[d];
        stride *= layout.shape()[d];
      }
      of_shard[static_cast<size_t>(i)] = number;
    }
  }
  return all;
}

Extent random_shape(Random& random) {
  Extent shape(static_cast<size_t>(draw_svg(random, 0, 4)));
  for (int64_t& size : shape) size = draw_svg(random, 1, 7);
  return shape;
}

}  // namespace

TEST_CASE("relayout: copies bring every element exactly once, for random pairs of layouts") {
  Random random(3);
  for (int round = 0; round < 3000; ++round) {
    const Extent shape = random_shape(random);
    const ShardLayout from = random_layout(shape, random), to = random_layout(shape, random);
    const auto source = memory(from, true), expected = memory(to, true);
    auto target = memory(to, false);
    for (const ShardCopy& copy : copies(from, to, "w"))
      for (const MemoryRun& run : runs(copy, from, to)) {
        REQUIRE(run.count > 0);
        for (int64_t i = 0; i < run.count; ++i) {
          int64_t& element = target[copy.to].at(static_cast<size_t>(run.to + i));
          REQUIRE(element == -1);  // not written before
          element = source[copy.from].at(static_cast<size_t>(run.from + i));
        }
      }
    REQUIRE(target == expected);
  }
}

TEST_CASE(
    "relayout: a rank takes its own elements from itself, and the same layout moves nothing "
    "between "
    "ranks") {
  Random random(4);
  for (int round = 0; round < 300; ++round) {
    const ShardLayout layout = random_layout(random_shape(random), random);
    for (const ShardCopy& copy : copies(layout, layout, "w"))
      REQUIRE(layout.shards()[copy.from].rank == layout.shards()[copy.to].rank);
  }
}

TEST_CASE("relayout: replicas share the work") {
  const Extent shape = {8};
  const std::vector<int32_t> members = {0, 1, 2, 3};
  const ShardLayout from(shape, tensor_shards(shape, -1, ExtentSplit(), {0, 1, 2, 3}));
  std::vector<Shard> wanted = tensor_shards(shape, -1, ExtentSplit(), {4, 5, 6, 7});
  std::vector<int32_t> senders;
  for (const ShardCopy& copy : copies(from, ShardLayout(shape, wanted), "w"))
    senders.push_back(from.shards()[copy.from].rank);
  CHECK(senders == members);
}

TEST_CASE("relayout: holders of a box") {
  const Extent shape = {4, 6};
  const ShardLayout layout(shape,
                           tensor_shards(shape, 1, ExtentSplit::even(6, 3, "columns"), {5, 6, 7}));
  CHECK(layout.holders({{0, 0}, {4, 6}}) == std::vector<int32_t>{5, 6, 7});
  CHECK(layout.holders({{1, 2}, {1, 2}}) == std::vector<int32_t>{6});
  CHECK(layout.holders({{0, 3}, {4, 2}}) == std::vector<int32_t>{6, 7});
  CHECK(layout.holders({{0, 3}, {0, 2}}).empty());
}

TEST_CASE("relayout: rows are one run, columns one a row") {
  const Extent shape = {4, 6};
  const ShardLayout one(shape, tensor_shards(shape, -1, ExtentSplit(), {0}));
  const ShardLayout row(shape, tensor_shards(shape, 0, ExtentSplit::even(4, 2, "rows"), {0, 1}));
  const ShardLayout column(shape,
                           tensor_shards(shape, 1, ExtentSplit::even(6, 2, "columns"), {0, 1}));
  std::vector<ShardCopy> moved = copies(one, row, "w");
  REQUIRE(moved.size() == 2);
  const std::vector<MemoryRun> whole = runs(moved[1], one, row);
  REQUIRE(whole.size() == 1);
  CHECK(whole[0].from == 12);
  CHECK(whole[0].to == 0);
  CHECK(whole[0].count == 12);
  moved = copies(one, column, "w");
  const std::vector<MemoryRun> lines = runs(moved[1], one, column);
  REQUIRE(lines.size() == 4);
  CHECK(lines[3].from == 21);
  CHECK(lines[3].to == 9);
}

TEST_CASE("relayout: elements that no rank holds, or that do not fit, are named") {
  const Extent shape = {8};
  const ShardLayout half(shape, {{0, {{0}, {5}}, {0, 5}}});
  const ShardLayout all(shape, tensor_shards(shape, -1, ExtentSplit(), {3}));
  CHECK_THROWS_WITH(copies(half, all, "fc.bias"),
                    "[topology] no rank holds [3] at [5] of 'fc.bias', which rank 3 needs");
  CHECK_THROWS_WITH(copies(half, ShardLayout({9}, {{0, {{0}, {9}}, {0, 9}}}), "fc.bias"),
                    "[topology] 'fc.bias' is [8] in one layout and [9] in the other");
  CHECK_THROWS_AS(ShardLayout(shape, {{0, {{4}, {5}}, {0, 5}}}), plait::Error);
  CHECK_THROWS_AS(ShardLayout(shape, {{0, {{0}, {4}}, {0, 5}}}), plait::Error);
  CHECK_THROWS_AS(tensor_shards(shape, 1, ExtentSplit::even(8, 2, "rows"), {0, 1}), plait::Error);
  CHECK_THROWS_AS(tensor_shards(shape, 0, ExtentSplit::even(8, 2, "rows"), {0}), plait::Error);
}

TEST_CASE("box: flat ranges become few boxes that hold exactly these elements, in order") {
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    Box box = full_box(random_shape(random));
    for (int64_t& offset : box.offset) offset = draw_svg(random, 0, 5);
    const int64_t n = elements(box), begin = draw_svg(random, 0, n),
                  end = draw_svg(random, begin, n);
    const std::vector<Box> boxes = flat_boxes(box, {begin, end});
    const size_t most = std::max<size_t>(1, 2 * box.extent.size());
    REQUIRE(boxes.size() <= (box.extent.empty() ? 1 : most - 1));
    int64_t at = begin;
    for (const Box& part : boxes) {
      REQUIRE(flat_index(box, part) == at);
      at += elements(part);
    }
    REQUIRE(at == end);
  }
  CHECK(flat_boxes({{0, 0}, {0, 3}}, {0, 5}).empty());
}

TEST_CASE("box: subtract leaves the rest, disjoint") {
  Random random(6);
  for (int round = 0; round < 500; ++round) {
    const Box outer = full_box(random_shape(random));
    Box hole = outer;
    for (size_t d = 0; d < hole.extent.size(); ++d) {
      hole.offset[d] = draw_svg(random, 0, outer.extent[d] - 1);
      hole.extent[d] = draw_svg(random, 1, outer.extent[d] - hole.offset[d]);
    }
    std::vector<Box> rest;
    subtract(outer, hole, rest);
    REQUIRE(rest.size() <= 2 * outer.extent.size());
    int64_t n = elements(hole);
    Box both;
    for (size_t i = 0; i < rest.size(); ++i) {
      n += elements(rest[i]);
      REQUIRE(!intersect(rest[i], hole, both));
      for (size_t k = 0; k < i; ++k) REQUIRE(!intersect(rest[i], rest[k], both));
    }
    REQUIRE(n == elements(outer));
  }
}

TEST_CASE("box: elements of odd extents") {
  CHECK(elements(Extent{}) == 1);
  CHECK(elements(Extent{3, 0, 2}) == 0);
  CHECK_THROWS_AS(elements(Extent{-1}), plait::Error);
  CHECK_THROWS_AS(elements(Extent{INT64_MAX, 2}), plait::Error);
}
