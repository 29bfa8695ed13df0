// Stages of a pipeline: the same result as one rank, whatever the schedule.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/parallel/ranks.hpp"

namespace {

using namespace parallel;

struct Layout {
  int pipeline = 1, data = 1, tensor = 1, zero = 0;
  std::string schedule = "1f1b";
  int chunks = 1, micro = 4;
  uint32_t ranks() const { return static_cast<uint32_t>(pipeline * data * tensor); }
  std::vector<std::string> overrides() const {
    return {"topology.pipeline=" + std::to_string(pipeline),
                                 "topology.data=" + std::to_string(data),
                                 "topology.tensor=" + std::to_string(tensor),
                                 "topology.zero=" + std::to_string(zero),
                                 "topology.schedule=" + schedule,
                                 "topology.chunks=" + std::to_string(chunks),
                                 "batch.micro=" + std::to_string(micro),
                                 "batch.eval=8",
                                 "topology.bucket=0.001"};
  }
  std::string text() const {
    std::string all;
    for (const auto& o : overrides()) all += o + " ";
    return all;
  }
};

void check(Team& team, const Layout& layout, const Outcome& expected, int steps) {
  CAPTURE(layout.text());
  team.overrides = layout.overrides();
  check_same(run(team, layout.ranks(), train(steps)), expected, 1e-5);
}

TEST_SUITE("pipeline") {
  TEST_CASE("every grid and schedule: 50 steps within 1e-5 of one rank") {
    const Folder folder;
    Team team{model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = run(team, 1, train(50))[0];
    REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zero_bubble"})
      for (const Layout& grid : {Layout{2, 1, 1}, Layout{4, 1, 1}, Layout{2, 2, 1},
                                 Layout{2, 1, 2}, Layout{2, 2, 2}}) {
        Layout layout = grid;
        layout.schedule = schedule;
        layout.micro = 4 / grid.data;
        check(team, layout, expected, 50);
        if (layout.schedule == "interleaved" && grid.pipeline == 2) {
          layout.chunks = 3;
          check(team, layout, expected, 50);
        }
      }
  }
}

}  // namespace
