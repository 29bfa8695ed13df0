// The topology is invisible in the result.
#include "tests/parallel/ranks.hpp"

namespace {

using namespace parallel;

Outcome alone(const Team& team, int steps) {
  const auto outcomes = run(team, 1, train(steps));
  REQUIRE_MESSAGE(outcomes[0].code == PLAIT_OK, outcomes[0].error);
  return outcomes[0];
}

TEST_SUITE("layouts") {
  TEST_CASE("every grid of 2, 4 and 8 ranks, ZeRO, any micro-batch: 50 steps within 1e-5 of one rank") {
    const Folder folder;
    Team team{model(folder), {}, {}, {}};
    const Outcome expected = alone(team, 50);
    for (const int ranks : {2, 4, 8})
      for (int tensor = 1; tensor <= ranks; tensor *= 2)
        for (const int zero : {0, 1, 2, 3})
          for (const int passes : {1, 2}) {
            const int data = ranks / tensor;
            if (zero > 0 && data == 1) continue;
            CAPTURE(data);
            CAPTURE(tensor);
            CAPTURE(zero);
            CAPTURE(passes);
            team.overrides = {"topology.data=" + std::to_string(data),
                              "topology.tensor=" + std::to_string(tensor),
                              "topology.zero=" + std::to_string(zero),
                              "batch.micro=" + std::to_string(16 / data / passes),
                              // Several parts even of so small a model.
                              "topology.bucket=0.001"};
            check_same(run(team, static_cast<uint32_t>(ranks), train(50)), expected, 1e-5);
          }
  }

  TEST_CASE("the same layout twice gives the same bits") {
    const Folder folder;
    const Team team{model(folder), {"topology.data=2", "topology.tensor=2", "topology.zero=3"}, {}, {}};
    const auto a = run(team, 4, train(20)), b = run(team, 4, train(20));
    REQUIRE_MESSAGE(a[0].code == PLAIT_OK, a[0].error);
    CHECK(a[0].losses == b[0].losses);
    CHECK(a[0].weights == b[0].weights);
  }
}

}  // namespace
