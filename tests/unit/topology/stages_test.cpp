#include "engine/topology/stages.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <random>

#include "engine/base/error.hpp"

namespace {

using namespace plait::topology;  // NOLINT: a test of this module

// Adjacent ranges, none empty, that cover the layers.
void check_cover(const std::vector<Range>& stages, int64_t layers, int32_t count) {
  REQUIRE(stages.size() == static_cast<size_t>(count));
  int64_t at = 0;
  for (const Range& stage : stages) {
    REQUIRE(stage.begin == at);
    REQUIRE(stage.size() >= 1);
    at = stage.end;
  }
  REQUIRE(at == layers);
}

// The smallest possible maximum over the stages, by trying every partition.
double by_trying(const std::vector<double>& costs, size_t stages, size_t from = 0) {
  if (stages == 0) return from == costs.size() ? 0 : std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity(), sum = 0;
  for (size_t end = from + 1; end <= costs.size(); ++end) {
    sum += costs[end - 1];
    best = std::min(best, std::max(sum, by_trying(costs, stages - 1, end)));
  }
  return best;
}

}  // namespace

TEST_CASE("stages by count differ by one at most, larger ones in front") {
  for (int64_t layers = 1; layers <= 40; ++layers)
    for (int32_t ranks = 1; ranks <= 8; ++ranks)
      for (int32_t chunks = 1; chunks <= 4 && ranks * chunks <= layers; ++chunks) {
        const auto stages = stages_by_count(layers, {ranks, chunks});
        check_cover(stages, layers, ranks * chunks);
        for (size_t i = 1; i < stages.size(); ++i)
          REQUIRE(stages[i].size() <= stages[i - 1].size());
        REQUIRE(stages.front().size() - stages.back().size() <= 1);
      }
}

TEST_CASE("stages by cost are as light as any partition can be") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<double> costs(1 + random() % 10);
    for (double& cost : costs) cost = static_cast<double>(random() % 20);
    for (size_t stages = 1; stages <= costs.size(); ++stages) {
      const PipelineShape shape{static_cast<int32_t>(stages), 1};
      const auto found = stages_by_cost(costs, shape);
      check_cover(found, static_cast<int64_t>(costs.size()), shape.stages());
      REQUIRE(max_stage_cost(costs, found) == by_trying(costs, stages));
    }
  }
}

TEST_CASE("stages by cost: known partitions") {
  // A heavy layer alone; among equally good partitions the more even one.
  CHECK(stages_by_cost({1, 1, 9, 1, 1, 1}, {3, 1}) == std::vector<Range>{{0, 2}, {2, 3}, {3, 6}});
  CHECK(stages_by_cost({8, 2, 2, 2, 2}, {3, 1}) == std::vector<Range>{{0, 1}, {1, 3}, {3, 5}});
  CHECK(stages_by_cost({0, 0, 0}, {3, 1}) == std::vector<Range>{{0, 1}, {1, 2}, {2, 3}});
  CHECK(stages_by_cost({1, 1, 1, 1}, {2, 2}).size() == 4);
}

TEST_CASE("stages by cost: very large and very small costs") {
  for (const double unit : {1e300, 1e-300, 5e-324})
    CHECK(stages_by_cost({8 * unit, 2 * unit, 2 * unit, 2 * unit, 2 * unit}, {3, 1}) ==
          std::vector<Range>{{0, 1}, {1, 3}, {3, 5}});
  CHECK_THROWS_WITH(stages_by_cost({1e308, 1e308}, {2, 1}),
                    "[topology] the costs of the layers add up to infinity; use a larger unit");
}

TEST_CASE("stages by cost: a thousand layers in 64 stages") {
  const std::vector<double> costs(1000, 0.1);
  const auto stages = stages_by_cost(costs, {16, 4});
  check_cover(stages, 1000, 64);
  CHECK(max_stage_cost(costs, stages) == doctest::Approx(1.6));
}

TEST_CASE("stages as the user says") {
  CHECK(stages_explicit({2, 1, 3}, 6, {3, 1}) == std::vector<Range>{{0, 2}, {2, 3}, {3, 6}});
  CHECK_THROWS_WITH(
      stages_explicit({2, 1, 2}, 6, {3, 1}),
      "[topology] topology.stages: the stages have 5 layers, the model has 6; use 3 for "
      "the last stage");
  CHECK_THROWS_WITH(
      stages_explicit({2, 2}, 3, {2, 1}),
      "[topology] topology.stages: the stages have 4 layers, the model has 3; use 1 for "
      "the last stage");
  CHECK_THROWS_WITH(
      stages_explicit({5, 4, 1}, 6, {3, 1}),
      "[topology] topology.stages: the stages have 10 layers, the model has 6; give fewer "
      "layers to the stages");
  CHECK_THROWS_WITH(
      stages_explicit({3, 3}, 6, {3, 1}),
      "[topology] topology.stages: 2 numbers, expected 3 (topology.pipeline = 3); give the "
      "number of layers of each stage, or use topology.pipeline = 2");
  CHECK_THROWS_WITH(
      stages_explicit({3, 2, 1}, 6, {2, 2}),
      "[topology] topology.stages: 3 numbers, expected 4 (topology.pipeline = 2, virtual_stages = "
      "2); give the number of layers of each stage");
  CHECK_THROWS_WITH(
      stages_explicit({6, 0}, 6, {1, 2}),
      "[topology] topology.stages: stage 1 has 0 layers, expected 1 to 6; every stage "
      "needs a layer");
  CHECK_THROWS_AS(stages_explicit({INT64_MAX, INT64_MAX}, 6, {2, 1}), plait::Error);
}

TEST_CASE("stages: impossible ones name the keys") {
  CHECK_THROWS_WITH(
      stages_by_count(3, {4, 1}),
      "[topology] topology.pipeline: 3 layers cannot fill 4 stages, each needs one or "
      "more; use pipeline = 3");
  CHECK_THROWS_WITH(
      stages_by_count(4, {2, 0}),
      "[topology] topology.virtual_stages: found 0, expected 1 or more; use 1 for one stage on "
      "each rank");
  CHECK_THROWS_WITH(
      stages_by_count(0, {1, 1}),
      "[topology] topology.pipeline: there are no layers to divide into stages; add layers");
  CHECK_THROWS_AS(stages_by_cost({1, 2}, {1 << 20, 1 << 20}), plait::Error);
  CHECK_THROWS_WITH(stages_by_cost({1, -2}, {2, 1}),
                    "[topology] layer 1 costs -2.0, expected a finite number of 0 or more");
  CHECK_THROWS_AS(stages_by_cost({1, std::nan("")}, {2, 1}), plait::Error);
}

TEST_CASE("stages and ranks: chunk by chunk around the pipeline") {
  const PipelineShape shape{4, 3};
  for (int32_t s = 0; s < shape.stages(); ++s)
    CHECK(shape.stage(shape.rank_of(s), shape.chunk_of(s)) == s);
  CHECK(shape.stage(1, 2) == 9);
}
