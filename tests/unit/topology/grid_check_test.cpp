#include "engine/topology/grid_check.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/topology/batch.hpp"
#include "engine/topology/grid.hpp"

namespace {

using namespace plait::topology;  // NOLINT: a test of this module

std::string text(const std::vector<TopologyError>& errors) {
  std::string all;
  for (const TopologyError& fault : errors) all += (all.empty() ? "" : "\n") + fault.text();
  return all;
}

GridRequest request(GridSizes sizes, int64_t world = 0, int64_t layers = 0) {
  GridRequest d;
  d.sizes = sizes;
  d.world = world;
  d.layers = layers;
  return d;
}

}  // namespace

TEST_CASE("grid check: possible grids have no fault") {
  for (int64_t p = 1; p <= 4; ++p)
    for (int64_t d = 1; d <= 4; ++d)
      for (int64_t t = 1; t <= 4; ++t) {
        GridRequest all = request({p, d, t}, p * d * t, 4);
        all.global = 24 * d;
        all.micro = 8;
        REQUIRE(text(check_grid(all)) == "");
      }
}

TEST_CASE("grid check: a world that is not the product") {
  CHECK(text(check_grid(request({2, 1, 2}, 8))) ==
        "[topology] topology: pipeline = 2, data = 1, tensor = 2 make 4 ranks, but 8 were started; "
        "use "
        "pipeline = 2, data = 2, tensor = 2, or start 4 ranks; with topology.data=0 the ranks "
        "decide");
  CHECK(
      text(check_grid(request({1, 1, 1}, 3))) ==
      "[topology] topology: pipeline = 1, data = 1, tensor = 1 make 1 rank, but 3 were started; "
      "use "
      "pipeline = 1, data = 3, tensor = 1, or start 1 rank; with topology.data=0 the ranks decide");
  CHECK(text(check_grid(request({1, 2, 1}, 1))) ==
        "[topology] topology: pipeline = 1, data = 2, tensor = 1 make 2 ranks, but 1 was started; "
        "use "
        "pipeline = 1, data = 1, tensor = 1, or start 2 ranks; with topology.data=0 the ranks "
        "decide");
  GridRequest batch = request({1, 1, 1}, 3);
  batch.global = 64;
  CHECK(text(check_grid(batch))
            .find("data = 3 does not divide batch.global = 64; use pipeline = "
                  "3, data = 1") != std::string::npos);
  batch.derived = true;
  CHECK(text(check_grid(batch)).find("use pipeline = 1, data = 3, tensor = 1") !=
        std::string::npos);
  // The suggestion satisfies the other rules: data = 4 does not divide 6 samples, two stages need
  // two layers.
  GridRequest narrow = request({1, 1, 2}, 8, 1);
  narrow.global = 6;
  CHECK(nearest_sizes(narrow) == GridSizes{1, 1, 8});
  narrow.layers = 4;
  CHECK(nearest_sizes(narrow) == GridSizes{4, 1, 2});
  narrow.sizes.tensor = 3;
  narrow.world = 7;
  narrow.layers = 1;
  narrow.global = 7;
  CHECK(nearest_sizes(narrow) == GridSizes{1, 1, 7});
  narrow.global = 1;
  CHECK(nearest_sizes(narrow) == GridSizes{1, 1, 7});
  GridRequest chunked = request({1, 1, 1}, 4, 4);  // of two chunks, four layers fill two ranks
  chunked.global = 1;
  chunked.chunks = 2;
  CHECK(nearest_sizes(chunked) == GridSizes{1, 1, 4});
  GridRequest larger = request({2, 1, 2}, 12);
  larger.global = 64;
  CHECK(text(check_grid(larger)).find("data = 3 does not divide batch.global = 64; use") !=
        std::string::npos);
  CHECK(nearest_sizes(request({1, 1, 1}, kMaxRanks)));
  CHECK(!nearest_sizes(request({1, 1, 1}, 2 * int64_t{kMaxRanks})));
  CHECK(!nearest_sizes(request({1, 1, 1}, int64_t{1} << 60)));
}

TEST_CASE("grid check: the nearest sizes always pass, for every world to 16") {
  for (int64_t world = 1; world <= 16; ++world)
    for (int64_t p = 1; p <= 5; ++p)
      for (int64_t d = 1; d <= 5; ++d)
        for (int64_t t = 1; t <= 5; ++t) {
          GridRequest wanted = request({p, d, t}, world, 6);
          wanted.global = 24;
          const auto other = nearest_sizes(wanted);
          REQUIRE(other);
          wanted.sizes = *other;
          REQUIRE(text(check_grid(wanted)) == "");
          if (p * d * t == world && p <= 6 && 24 % d == 0) REQUIRE(*other == GridSizes{p, d, t});
        }
}

TEST_CASE("grid check: more stages than layers") {
  CHECK(text(check_grid(request({4, 1, 1}, 4, 3))) ==
        "[topology] topology.pipeline: 3 layers cannot fill 4 stages, each needs one or more; use "
        "pipeline = 3");
  GridRequest chunked = request({4, 1, 1}, 4, 9);
  chunked.chunks = 3;
  CHECK(text(check_grid(chunked)) ==
        "[topology] topology.pipeline: 9 layers cannot fill 4 ranks with topology.virtual_stages = "
        "3 stages "
        "each, each needs one or more; use pipeline = 3, or virtual_stages = 2");
  chunked.chunks = 10;
  CHECK(text(check_grid(chunked)) ==
        "[topology] topology.pipeline: 9 layers cannot fill 4 ranks with topology.virtual_stages = "
        "10 stages "
        "each, each needs one or more; use pipeline = 1 and virtual_stages = 1");
  chunked = request({3, 1, 1}, 3, 2);
  chunked.chunks = 2;
  CHECK(text(check_grid(chunked)) ==
        "[topology] topology.pipeline: 2 layers cannot fill 3 ranks with topology.virtual_stages = "
        "2 stages each, each needs one or more; use pipeline = 1");
}

TEST_CASE("grid check: sizes below one, and all faults at once") {
  CHECK(text(check_grid(request({0, -2, 1}, 8))) ==
        "[topology] topology.pipeline: 0 ranks, expected 1 to 1048576; use 1 for an axis that is "
        "not used\n"
        "[topology] topology.data: -2 ranks, expected 1 to 1048576; use 1 for an axis that is not "
        "used");
  CHECK(text(check_sizes({1024, 1024, 2})) ==
        "[topology] topology: pipeline = 1024, data = 1024, tensor = 2 make 2097152 ranks, more "
        "than 1048576; lower one of them");
  CHECK(check_sizes({1024, 512, 2}).empty());
  GridRequest several = request({4, 3, 1}, 8, 2);
  several.global = 64;
  CHECK(check_grid(several).size() == 3);
  CHECK_THROWS_AS(raise_if_any(check_grid(several)), plait::Error);
  try {
    raise_if_any(check_grid(several));
  } catch (const plait::Error& error) {
    CHECK(error.code() == PLAIT_ERR_CONFIG);
    CHECK(error.text() == text(check_grid(several)));
  }
}

TEST_CASE("batch: sizes that cannot be split, with the nearest valid ones") {
  CHECK(text(check_batch({64, 0, 0}, 6)) ==
        "[topology] batch.global: 64 samples cannot be shared by 6 replicas (topology.data); use "
        "global "
        "= 60 or 66, or data = 4");
  CHECK(text(check_batch({2, 0, 0}, 3)) ==
        "[topology] batch.global: 2 samples cannot be shared by 3 replicas (topology.data); use "
        "global "
        "= 3, or data = 2");
  CHECK(
      text(check_batch({64, 12, 0}, 2)) ==
      "[topology] batch.micro: 12 does not divide a replica's share of 32 samples; use micro = 8");
  CHECK(text(check_batch({64, 0, 5}, 2)) ==
        "[topology] batch.accumulation: 5 does not divide a replica's share of 32 samples; use "
        "accumulation = 4");
  CHECK(text(check_batch({64, 8, 3}, 2)) ==
        "[topology] batch.accumulation: 3 micro-batches of 8 on 2 replicas are not 64 samples "
        "(batch.global); use accumulation = 4");
  CHECK(text(check_batch({0, 0, 4}, 2)) ==
        "[topology] batch.global: neither it nor batch.micro is given; give one of them");
  CHECK(text(check_batch({-1, 0, 0}, 2)) ==
        "[topology] batch.global: found -1, expected 1 or more; leave it out to have it computed");
  CHECK(check_batch({0, INT64_MAX, 2}, 2).size() == 1);
  CHECK(check_batch({0, INT64_MAX, 0}, 2).size() == 1);
  CHECK(check_batch({0, INT64_MAX, 0}, 1).empty());
  CHECK(check_batch({0, INT64_MAX / 2, 2}, 1).empty());
  CHECK(check_eval(0, 3).empty());
  CHECK(check_eval(6, 3).empty());
  CHECK(text(check_eval(2, 3)) ==
        "[topology] batch.eval: 2 samples cannot be shared by 3 replicas (topology.data); use eval "
        "= 3");
  CHECK(check_batch({INT64_MAX, 0, 0}, 2).size() == 1);
}

TEST_CASE("batch: any two give the third") {
  for (int64_t data = 1; data <= 5; ++data)
    for (int64_t micro = 1; micro <= 6; ++micro)
      for (int64_t accumulation = 1; accumulation <= 6; ++accumulation) {
        const BatchSizes whole{micro * accumulation * data, micro, accumulation};
        REQUIRE(solve_batch(whole, data) == whole);
        REQUIRE(solve_batch({0, micro, accumulation}, data) == whole);
        REQUIRE(solve_batch({whole.global, 0, accumulation}, data) == whole);
        REQUIRE(solve_batch({whole.global, micro, 0}, data) == whole);
      }
  CHECK(solve_batch({12, 0, 0}, 3) == BatchSizes{12, 4, 1});
  CHECK(solve_batch({0, 4, 0}, 3) == BatchSizes{12, 4, 1});
  CHECK_THROWS_WITH(
      solve_batch({2, 0, 0}, 3),
      "[topology] batch.global: 2 samples cannot be shared by 3 replicas (topology.data); use "
      "global = 3, or data = 2");
}

TEST_CASE("batch: rows of all replicas and micro-batches cover the batch once, in order") {
  const BatchSizes batch = solve_batch({48, 4, 0}, 3);
  int64_t at = 0;
  for (int32_t d = 0; d < 3; ++d)
    for (int64_t m = 0; m < batch.accumulation; ++m) {
      CHECK(rows(batch, 3, d, m) == Range{at, at + 4});
      at += 4;
    }
  CHECK(at == 48);
}

TEST_CASE("nearest divisor") {
  CHECK(nearest_divisor(64, 6) == 4);
  CHECK(nearest_divisor(12, 5) == 4);
  CHECK(nearest_divisor(7, 4) == 1);
  CHECK(nearest_divisor(7, 5) == 7);
  CHECK(nearest_divisor(1, 100) == 1);
  CHECK(nearest_divisor(36, -3) == 1);
}
