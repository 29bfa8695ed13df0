// Layers of a third party that knows nothing of ranks: the layers of examples/layer_plugin.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

JobSpec example() {
  std::ifstream file(LAYER_PLUGIN_EXPERIMENT);
  JobSpec job_spec{{std::istreambuf_iterator<char>(file), {}}, {}, {}, {}};
  job_spec.plugins = {LAYER_PLUGIN};
  job_spec.overrides = {"batch.global=16", "run.threads=1"};
  return job_spec;
}

// Each layer of the plugin reads sharded features of the previous layer, or passes features to a
// layer that shards them.
const std::vector<std::vector<std::string>> kShared{
    {"model.layers[0].parallel=column", "model.layers[2].parallel=column"},
    {"model.layers[0].parallel=column", "model.layers[2].parallel=row"},
    {"model.layers[2].parallel=column", "model.layers[4].parallel=row"}};

TEST_SUITE("third_party") {
  TEST_CASE("a third party's layers among shared ones, one of ops and one with an op of its own") {
    JobSpec job_spec = example();
    const std::vector<std::string> always = job_spec.overrides;
    const Outcome expected = run(job_spec, 1, train(50))[0];
    REQUIRE_MESSAGE(expected.code == PLAIT_OK, expected.error);
    for (const std::vector<std::string>& shared : kShared)
      for (const Layout& layout :
           {Layout{1, 1, 2, 0, "1f1b", 1, 16}, Layout{1, 2, 2, 3}, Layout{2, 1, 2}}) {
        CAPTURE(shared[0]);
        CAPTURE(shared[1]);
        CAPTURE(layout.text());
        job_spec.overrides = layout.overrides();
        for (const auto* more : {&always, &shared})
          job_spec.overrides.insert(job_spec.overrides.end(), more->begin(), more->end());
        check_same(run(job_spec, layout.ranks(), train(50)), expected);
      }
  }

  TEST_CASE(
      "a third party's layers stay sharded, of ops of the engine's or of an own op with a rule") {
    JobSpec job_spec = example();
    job_spec.overrides.insert(job_spec.overrides.end(), kShared[0].begin(), kShared[0].end());
    job_spec.overrides.emplace_back("topology.tensor=2");
    const auto plan = nlohmann::json::parse(plan_of(job_spec, 2));
    const auto micro =
        *std::find_if(plan["programs"].begin(), plan["programs"].end(),
                      [](const auto& program) { return program["name"] == "forward_backward"; });
    int gates = 0, softsigns = 0, gathered = 0;
    for (const auto& kernel : micro["kernels"]) {
      if (kernel["scope"] == "model.acme_gate1" && kernel["op"] == "map") {
        CHECK(kernel["outputs"][0] == "f32 (16, 16)");
        ++gates;
      }
      if (kernel["op"] == "acme.softsign") {
        CHECK(kernel["outputs"][0] == "f32 (16, 16)");
        ++softsigns;
      }
      gathered += kernel["op"] == "collective_start" &&
                  kernel["collective"]["name"] == "model.acme_softsign1 gathered";
    }
    CHECK(gates > 0);
    CHECK(softsigns == 1);
    CHECK(gathered == 0);
  }
}

}  // namespace
