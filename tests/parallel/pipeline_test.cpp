// Stages of a pipeline: the same result as one rank, whatever the schedule.
#include <cmath>

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

// n steps, and nothing else.
Body losses(int n) {
  return [n](uint32_t, plait::Session& session, Outcome& outcome) {
    for (int i = 0; i < n; ++i) {
      const plait_step_result r = session.step();
      outcome.losses.push_back(r.loss);
      outcome.norms.push_back(r.grad_norm);
    }
  };
}

TEST_SUITE("pipeline") {
  TEST_CASE("every grid and schedule: 50 steps within 1e-5 of one rank") {
    const Folder folder;
    Team team{model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = run(team, 1, train(50))[0];
    REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
    for (const char* schedule : {"gpipe", "1f1b", "interleaved", "zero_bubble"})
      for (const Layout& grid : {Layout{2, 1, 1}, Layout{4, 1, 1}, Layout{2, 2, 1}, Layout{2, 1, 2},
                                 Layout{2, 2, 2}, Layout{4, 2, 1}}) {
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

  TEST_CASE("several models, one that reads another, parameters tied across stages") {
    const std::string head =
        "[run]\nseed = 1\nthreads = 1\n[batch]\nglobal = 8\nmicro = 2\neval = 8\n[data.train]\n"
        "type = \"synthetic\"\nshape = [8]\nclasses = 8\n[data.eval]\ntype = \"synthetic\"\n"
        "shape = [8]\nclasses = 8\n";
    const auto model = [](const std::string& name, const std::string& layers) {
      return "[models." + name + "]\nlayers = [" + layers + "]\n[models." + name +
             ".loss]\ntype = \"cross_entropy\"\n[[models." + name +
             ".metrics]]\ntype = \"accuracy\"\n[models." + name +
             ".optimizer]\ntype = \"sgd\"\nrate = 0.1\nclip = 1.0\n";
    };
    const std::string linear = "{type = \"linear\", out = 8}";
    const std::string apart = head + model("a", linear + ", {type = \"relu\"}") +
                              model("b", linear + ", {type = \"tanh\"}");
    const std::string joined =
        head + model("a", "{type = \"linear\", out = 8, as = [\"h\"]}, " + linear) +
        model("b", "{type = \"linear\", out = 8, from = [\"a.h\"]}, " + linear);
    const std::string tied =
        head +
        model("m",
              "{type = \"linear\", name = \"a\", out = 8}, {type = \"linear\", name = \"b\", out "
              "= 8}, {type = \"linear\", name = \"c\", out = 8, tie = {weight = "
              "\"m.a.weight\"}}, {type = \"tanh\"}, {type = \"linear\", name = \"d\", out = "
              "8, tie = {weight = \"m.b.weight\"}}");
    for (const std::string& toml : {apart, joined, tied}) {
      Team team{toml, {}, {}, {}};
      const Outcome expected = run(team, 1, losses(20))[0];
      REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
      std::vector<std::vector<std::string>> layouts{{"topology.pipeline=2"},
                                                    {"topology.pipeline=2", "topology.comm=gloo"}};
      if (toml == tied)
        layouts.push_back({"topology.pipeline=2", "topology.chunks=2",
                           "topology.schedule=interleaved", "topology.stages=[2,1,1,1]"});
      for (const auto& layout : layouts) {
        CAPTURE(layout.back());
        team.overrides = layout;
        const auto got = run(team, 2, losses(20));
        for (const Outcome& o : got) {
          REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
          for (size_t i = 0; i < expected.losses.size(); ++i) {
            CHECK(o.losses[i] == doctest::Approx(expected.losses[i]).epsilon(1e-5));
            CHECK(o.norms[i] == doctest::Approx(expected.norms[i]).epsilon(1e-5));
          }
        }
      }
    }
  }

  TEST_CASE("numbers that are not finite: all skip, then stop naming the op of the stage") {
    const Folder folder;
    const Team team{
        model(folder), {"topology.pipeline=2", "batch.micro=4", "guard.nonfinite_limit=3"}, {}, {}};
    const auto outcomes = run(team, 2, [](uint32_t, plait::Session& session, Outcome& outcome) {
      const std::vector<float> x(16 * 16, INFINITY);
      const std::vector<int32_t> label(16, 0);
      const plait::Feed feeds[] = {{"input", std::span<const float>(x), {16, 16}},
                                   {"target", std::span<const int32_t>(label), {16}}};
      for (int i = 0; i < 10; ++i) outcome.norms.push_back(session.step(feeds).skipped);
    });
    for (const Outcome& o : outcomes) {
      CAPTURE(o.error);
      CHECK(o.code == PLAIT_ERR_NUMERIC);
      CHECK(o.norms == std::vector<double>{1, 1});
      CHECK(o.error.find("model.first (op matmul") != std::string::npos);
      CHECK(o.error.find("on rank 0") != std::string::npos);
    }
  }

  TEST_CASE("recomputation gives the same bits in every schedule") {
    const Folder folder;
    for (const Layout& layout :
         {Layout{2, 1, 1, 0, "1f1b", 1, 4}, Layout{2, 2, 1, 3, "zero_bubble", 1, 2},
          Layout{2, 1, 2, 0, "interleaved", 2, 4}}) {
      CAPTURE(layout.text());
      Team team{model(folder), layout.overrides(), {}, {}};
      const auto plain = run(team, layout.ranks(), train(20));
      REQUIRE_MESSAGE(plain[0].code == PLAIT_OK, plain[0].error);
      for (const char* mode : {"layer", "stage", "budget"}) {
        CAPTURE(mode);
        team.overrides = layout.overrides();
        team.overrides.push_back(std::string("topology.recompute=") + mode);
        if (std::string(mode) == "budget")
          team.overrides.push_back("topology.recompute_budget=0.012");
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
    for (const char* stages :
         {"topology.stages=[1,6]", "topology.stages=[6,1]", "topology.balance=count"}) {
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
