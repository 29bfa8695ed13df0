// How many attempts a search for the least recomputation makes, and which one it ends with.
#include "engine/plan/recompute_budget.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "engine/topology/topology_error.hpp"

using namespace plait;
using namespace plait::plan;

namespace {

constexpr uint64_t kMiB = 1 << 20;

// Programs whose activations take `most` MiB, and one less for each candidate that is recomputed.
struct Attempts {
  uint64_t most, candidates;
  std::vector<size_t> tried{};

  BudgetedProgram program(const std::string& where = "") {
    return {where, [this](RecomputeOptions& o) {
              tried.push_back(o.n_cheapest);
              o.candidates = candidates;
              return (most - std::min<uint64_t>(o.n_cheapest, candidates)) * kMiB;
            }};
  }
};

config::TopologyConfig budget(double mib) {
  config::TopologyConfig t;
  t.recompute = "budget";
  t.recompute_budget = mib;
  return t;
}

}  // namespace

TEST_CASE("without a budget there is one attempt, and one that fits at once is the last") {
  Attempts any{100, 9}, small{100, 9};
  solve_recompute_budget({}, {any.program()});
  CHECK(any.tried == std::vector<size_t>{0});
  solve_recompute_budget(budget(100), {small.program()});
  CHECK(small.tried == std::vector<size_t>{0});
}

TEST_CASE("a few candidates are tried one by one, many in at most 64 steps") {
  Attempts few{100, 64};
  solve_recompute_budget(budget(97), {few.program()});
  CHECK(few.tried == std::vector<size_t>{0, 1, 2, 3});
  Attempts many{1000, 300};
  solve_recompute_budget(budget(988), {many.program()});
  CHECK(many.tried == std::vector<size_t>{0, 5, 10, 15});
  // The last step reaches all of them.
  Attempts all{1000, 321};
  solve_recompute_budget(budget(1000 - 321), {all.program()});
  CHECK(all.tried.size() <= 65);
  CHECK(all.tried.back() >= 321);
}

TEST_CASE("what does not fit is refused with the least that it takes") {
  Attempts first{20, 9}, second{1000, 320}, none{7, 0};
  const auto refused = [](const std::string& expected, std::vector<BudgetedProgram> all) {
    try {
      solve_recompute_budget(budget(6), std::move(all));
      CHECK(false);
    } catch (const topology::InvalidTopology& e) {
      const std::string text = e.what();
      CHECK_MESSAGE(text.find(expected) != std::string::npos, text);
    }
  };
  refused("take 11.00 MiB at least in stage 0, 680.00 MiB at least in stage 1, even with full",
          {first.program(" in stage 0"), second.program(" in stage 1")});
  CHECK(second.tried.size() == 65);
  refused(
      "take 7.00 MiB at least, even with full recomputation; topology.recompute_budget allows 6.",
      {none.program()});
}
