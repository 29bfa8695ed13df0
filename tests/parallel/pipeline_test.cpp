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
                                 Layout{2, 1, 2}, Layout{2, 2, 2}, Layout{4, 2, 1}}) {
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

  TEST_CASE("with ZeRO, and any number of micro-batches") {
    const Folder folder;
    Team team{model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = run(team, 1, train(50))[0];
    REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
    for (const char* schedule : {"1f1b", "interleaved", "zero_bubble"})
      for (const int zero : {1, 2, 3})
        for (const int micro : {1, 4, 8}) {
          Layout layout{2, 2, 1, zero, schedule, 1, micro};
          if (layout.schedule == "interleaved") layout.chunks = 2;
          check(team, layout, expected, 50);
        }
    check(team, {2, 2, 2, 3, "zero_bubble", 1, 2}, expected, 50);
  }

  TEST_CASE("values that skip stages: branches, embeddings, shapes") {
    const Folder folder;
    Team team{mixed_model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = run(team, 1, train(50))[0];
    REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
    for (const Layout& layout :
         {Layout{2, 1, 1}, Layout{4, 1, 1, 0, "zero_bubble"}, Layout{4, 1, 1, 0, "interleaved", 2},
          Layout{8, 1, 1, 0, "gpipe"}, Layout{2, 1, 2, 0, "interleaved", 3},
          Layout{4, 1, 2, 0, "zero_bubble"}, Layout{2, 2, 2, 3, "interleaved", 4, 2}})
      check(team, layout, expected, 50);
  }

  TEST_CASE("recomputation gives the same bits in every schedule") {
    const Folder folder;
    for (const Layout& layout : {Layout{2, 1, 1, 0, "1f1b", 1, 4}, Layout{2, 2, 1, 3, "zero_bubble", 1, 2},
                                 Layout{2, 1, 2, 0, "interleaved", 2, 4}}) {
      CAPTURE(layout.text());
      Team team{model(folder), layout.overrides(), {}, {}};
      const auto plain = run(team, layout.ranks(), train(20));
      REQUIRE_MESSAGE(plain[0].code == PLAIT_OK, plain[0].error);
      for (const char* mode : {"layer", "stage", "budget"}) {
        CAPTURE(mode);
        team.overrides = layout.overrides();
        team.overrides.push_back(std::string("topology.recompute=") + mode);
        if (std::string(mode) == "budget") team.overrides.push_back("topology.recompute_budget=0.012");
        const auto again = run(team, layout.ranks(), train(20));
        for (const Outcome& o : again) REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
        CHECK(again[0].losses == plain[0].losses);
        CHECK(again[0].norms == plain[0].norms);
        CHECK(again[0].weights == plain[0].weights);
      }
    }
  }

  TEST_CASE("stages as the user says, by count, and the same layout twice") {
    const Folder folder;
    Team team{model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = run(team, 1, train(20))[0];
    const Layout layout{2, 1, 1, 0, "1f1b", 1, 4};
    for (const char* stages : {"topology.stages=[1,6]", "topology.stages=[6,1]",
                               "topology.balance=count"}) {
      CAPTURE(stages);
      team.overrides = layout.overrides();
      team.overrides.emplace_back(stages);
      const auto a = run(team, 2, train(20)), b = run(team, 2, train(20));
      check_same(a, expected, 1e-5);
      CHECK(a[0].losses == b[0].losses);
      CHECK(a[0].weights == b[0].weights);
    }
  }
}

}  // namespace
