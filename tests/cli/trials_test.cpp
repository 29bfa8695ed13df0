// The trials of plait sweep.
#include <doctest/doctest.h>

#include <set>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/sweep/trials.hpp"

namespace {

using namespace plait::cli;
using Words = std::vector<std::string>;

TEST_CASE("commas outside of brackets and quotes separate values") {
  const SweepSpace space = sweep_space(
      {"a=1,2", "b=[1,2],[3]", "c=\"x,y\"", "d='x,','y'", "~e", "f={x=1,y=2}", "g=3", "h"});
  REQUIRE(space.axes.size() == 3);
  CHECK(space.axes[0].key == "a");
  CHECK(space.axes[0].values == Words{"1", "2"});
  CHECK(space.axes[1].values == Words{"[1,2]", "[3]"});
  CHECK(space.axes[2].values == Words{"'x,'", "'y'"});
  CHECK(words_of(space, {"a=2", "b=[3]", "d='y'"}) ==
        Words{"a=2", "b=[3]", "c=\"x,y\"", "d='y'", "~e", "f={x=1,y=2}", "g=3", "h"});
  CHECK_THROWS_WITH_AS(sweep_space({"a=1,2", "b=1", "a=3,4"}),
                       doctest::Contains("'a' has several values twice"), CliError);
  for (const char* word : {"a=1,", "a=,1", "a=1,,2"})
    CHECK_THROWS_WITH_AS(sweep_space({word}), doctest::Contains("has an empty value"), CliError);
}

TEST_CASE("a grid has every combination, the last axis fastest") {
  CHECK(grid_trials({{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}}) ==
        std::vector<Words>{{"a=1", "b=x"},
                           {"a=1", "b=y"},
                           {"a=1", "b=z"},
                           {"a=2", "b=x"},
                           {"a=2", "b=y"},
                           {"a=2", "b=z"}});
}

TEST_CASE("random trials differ, depend on the seed alone, and reach every combination") {
  const std::vector<SweepAxis> axes = {{"a", {"1", "2", "3"}}, {"b", {"x", "y", "z"}}};
  const auto some = random_trials(axes, 4, 7);
  CHECK(some.size() == 4);
  CHECK(std::set<Words>(some.begin(), some.end()).size() == 4);
  CHECK(some == random_trials(axes, 4, 7));
  CHECK(random_trials(axes, 9, 7) == grid_trials(axes));
  std::set<Words> reached;
  for (uint64_t seed = 0; seed < 200; ++seed)
    for (const Words& trial : random_trials(axes, 1, seed)) reached.insert(trial);
  CHECK(reached.size() == 9);
  // More combinations than 64 bits count.
  const std::vector<SweepAxis> many(80, {"a", {"1", "2"}});
  CHECK(random_trials(many, 3, 1).size() == 3);
  CHECK(combinations(axes) == 9);
  CHECK(combinations(many) == UINT64_MAX);
}

TEST_CASE("successive halving: twice the steps for half of the trials") {
  CHECK(halving_rounds(8, 800) == std::vector<int64_t>{100, 200, 400, 800});
  CHECK(halving_rounds(5, 800) == std::vector<int64_t>{100, 200, 400, 800});
  CHECK(halving_rounds(2, 9) == std::vector<int64_t>{4, 9});
  CHECK(halving_rounds(1, 9) == std::vector<int64_t>{9});
  CHECK(halving_rounds(1000, 2) == std::vector<int64_t>{1, 2});
}

}  // namespace
