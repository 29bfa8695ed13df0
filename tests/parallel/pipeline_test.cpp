// Stages of a pipeline: the same result as one rank, with every schedule.
#include <cmath>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

void check(JobSpec& job_spec, const Layout& layout, const Outcome& expected, int steps) {
  CAPTURE(layout.text());
  job_spec.overrides = layout.overrides();
  check_same(run(job_spec, layout.ranks(), train(steps)), expected);
}

// Exactly n steps.
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
  TEST_CASE("values that skip stages: branches, embeddings, shapes") {
    const Folder folder;
    JobSpec job_spec{mixed_model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = run(job_spec, 1, train(50))[0];
    REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
    for (const Layout& layout :
         {Layout{2, 1, 1}, Layout{4, 1, 1, 0, "zero_bubble"}, Layout{4, 1, 1, 0, "interleaved", 2},
          Layout{8, 1, 1, 0, "gpipe"}, Layout{2, 1, 2, 0, "interleaved", 3},
          Layout{4, 1, 2, 0, "zero_bubble"}, Layout{2, 2, 2, 3, "interleaved", 4, 2}})
      check(job_spec, layout, expected, 50);
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
             ".optimizer]\ntype = \"sgd\"\nlearning_rate = 0.1\nclip_grad_norm = 1.0\n";
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
      JobSpec job_spec{toml, {}, {}, {}};
      const Outcome expected = run(job_spec, 1, losses(20))[0];
      REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
      std::vector<std::vector<std::string>> layouts{
          {"topology.pipeline=2"}, {"topology.pipeline=2", "topology.backend=gloo"}};
      if (toml == tied)
        layouts.push_back({"topology.pipeline=2", "topology.virtual_stages=2",
                           "topology.schedule=interleaved", "topology.stages=[2,1,1,1]"});
      for (const auto& layout : layouts) {
        CAPTURE(layout.back());
        job_spec.overrides = layout;
        const auto got = run(job_spec, 2, losses(20));
        for (const Outcome& o : got) {
          REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
          check_metrics(o, expected);
        }
      }
    }
  }

  TEST_CASE("numbers that are not finite: all skip, then stop naming the op of the stage") {
    const Folder folder;
    const JobSpec job_spec{
        model(folder), {"topology.pipeline=2", "batch.micro=4", "guard.nonfinite_limit=3"}, {}, {}};
    const auto outcomes = run(job_spec, 2, [](uint32_t, plait::Session& session, Outcome& outcome) {
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

  TEST_CASE("a budget holds in every stage: all ranks make the same again, or refuse alike") {
    const Folder folder;
    const Layout layout{2, 1, 1, 0, "1f1b", 1, 4};
    JobSpec job_spec{model(folder), layout.overrides(), {}, {}};
    job_spec.overrides.emplace_back("topology.stages=[1,6]");
    const auto plain = run(job_spec, 2, train(3));
    REQUIRE_MESSAGE(plain[0].code == PLAIT_OK, plain[0].error);
    job_spec.overrides.emplace_back("topology.recompute=budget");
    int refused = 0, fit = 0;
    for (const char* budget : {"0.002", "0.004", "0.006", "0.008", "0.01", "0.012"}) {
      CAPTURE(budget);
      job_spec.overrides.push_back(std::string("topology.recompute_budget=") + budget);
      const auto got = run(job_spec, 2, train(3));
      job_spec.overrides.pop_back();
      CAPTURE(got[0].error);
      CHECK(got[1].code == got[0].code);
      CHECK(got[1].error == got[0].error);
      if (got[0].code == PLAIT_OK) {
        ++fit;
        CHECK(got[0].losses == plain[0].losses);
        continue;
      }
      ++refused;
      CHECK(got[0].code == PLAIT_ERR_CONFIG);
      CHECK(got[0].error.find(" at least in stage 1") != std::string::npos);
    }
    CHECK(refused > 0);
    CHECK(fit > 1);
  }

  TEST_CASE("stages as the user says, by count, and the same layout twice") {
    const Folder folder;
    JobSpec job_spec{model(folder), {"batch.eval=8"}, {}, {}};
    const Outcome expected = run(job_spec, 1, train(20))[0];
    const Layout layout{2, 1, 1, 0, "1f1b", 1, 4};
    for (const char* stages :
         {"topology.stages=[1,6]", "topology.stages=[6,1]", "topology.balance=count"}) {
      CAPTURE(stages);
      job_spec.overrides = layout.overrides();
      job_spec.overrides.emplace_back(stages);
      const auto a = run(job_spec, 2, train(20)), b = run(job_spec, 2, train(20));
      check_same(a, expected);
      check_equal(b[0], a[0]);
    }
  }
}

}  // namespace
