// Programs that make parameters of parameters: what they leave, and that ranks make the same calls.
#include "engine/plan/parameter_rule.hpp"

#include <doctest/doctest.h>

#include "engine/plan/job_calls.hpp"
#include "engine/plan/layout.hpp"
#include "engine/plan/print_programs.hpp"
#include "engine/plan/verify_job.hpp"
#include "engine/program/op_def.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;
using namespace plait::plan;

const char* const kExperiment = R"([run]
steps = 4
device = "reference"
[batch]
global = 8
[data.train]
type = "synthetic"
samples = 16
shape = [6]
classes = 4
[model]
layers = [
  {type = "linear", out = 12, parallel = "column"}, {type = "relu"}, {type = "linear", out = 4}
]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
)";

// Doubles the first weight, and makes its bias the sums of the rows.
EntryPoint write_rules(const EntryPointSource& from, ParameterRule::Work work) {
  PlanDraft& plan = from.plan;
  const Parameter &weight = *plan.parameter("model.linear1.weight"),
                  &bias = *plan.parameter("model.linear1.bias");
  ParameterProgram program(plan, "rules");
  ParameterRule rule(plan, "rule of linear1", work);
  const program::ValueId w = rule.read(weight);
  CHECK(rule.read(weight) == w);
  CHECK(rule.parameter_of(w) == &weight);
  CHECK(rule.parameter_of(w + 1) == nullptr);
  program::Graph& g = rule.graph();
  rule.write(weight, program::binary(g, "add", w, w));
  rule.write(bias, g.apply1("reduce", {w},
                            {program::attr("kind", std::string("sum")),
                             program::attr("axes", std::vector<int64_t>{1}),
                             program::attr("keep", false)}));
  program.add(std::move(rule));
  EntryPoint entry{"rules", "rules", {}};
  entry.launches = {{program.finish(), 0, -1, -1}};
  return entry;
}

std::unique_ptr<const Plan> plan_of(ParameterRule::Work work,
                                    const std::vector<std::string>& keys = {}, int32_t rank = 0) {
  static const auto kPlugins =
      test::load_plugins({"device-reference", "layer-dense", "layer-activation", "layer-loss",
                          "data-synthetic", "optimizer-adamw"});
  return test::plan_of(kExperiment, keys, test::context_of(kPlugins, rank),
                       [work](const EntryPointSource& from) { return write_rules(from, work); });
}

constexpr ParameterRule::Work kWorks[] = {ParameterRule::Work::kShared,
                                          ParameterRule::Work::kRepeated};

}  // namespace

TEST_CASE("parameter rules read all before they write, in place") {
  for (const ParameterRule::Work work : kWorks) {
    const std::shared_ptr<const Plan> plan = plan_of(work);
    runtime::Executor executor(plan);
    const Parameter &weight = *plan->parameter("model.linear1.weight"),
                    &bias = *plan->parameter("model.linear1.bias");
    std::vector<float> w(72), b(12);
    for (size_t i = 0; i < w.size(); ++i) w[i] = static_cast<float>(i);
    executor.write(weight.value, w.data(), w.size() * sizeof(float));
    for (const auto& group : executor.launches(plan->entry_point("rules"))) executor.launch(group);
    std::vector<float> doubled(72);
    executor.read(weight.value, doubled.data(), doubled.size() * sizeof(float));
    executor.read(bias.value, b.data(), b.size() * sizeof(float));
    for (size_t i = 0; i < w.size(); ++i) CHECK(doubled[i] == 2 * w[i]);
    for (size_t row = 0; row < b.size(); ++row)
      CHECK(b[row] == static_cast<float>(6 * (6 * row) + 15));
  }
}

TEST_CASE("parameter rules: ranks make the same calls, only where they need each other") {
  const std::vector<std::vector<std::string>> grids{
      {"topology.data=2"},
      {"topology.data=2", "topology.zero=3"},
      {"topology.tensor=2"},
      {"topology.tensor=2", "topology.data=2", "topology.zero=1"},
      {"topology.tensor=2", "topology.data=2", "topology.zero=3", "topology.bucket_mib=0.001"}};
  for (const ParameterRule::Work work : kWorks)
    for (const auto& keys : grids) {
      CAPTURE(keys);
      std::vector<std::unique_ptr<const Plan>> plans;
      std::vector<RankCalls> calls;
      std::vector<const RankCalls*> all;
      for (int32_t rank = 0; rank == 0 || rank < plans[0]->grid.ranks(); ++rank)
        plans.push_back(plan_of(work, keys, rank));
      for (const auto& plan : plans) calls.push_back(calls_of(*plan));
      for (const RankCalls& one : calls) all.push_back(&one);
      CHECK(verify_job(plans[0]->grid, all).fault == "");
      const std::string text = print_programs(*plans[0], "rules");
      CAPTURE(text);
      // Tensor ranks hold rows of the weight: shared work needs nobody.
      const bool gathers = plans[0]->zero == 3 ||
                           (work == ParameterRule::Work::kRepeated && plans[0]->grid.tensor() > 1);
      CHECK((text.find("all_gather") != std::string::npos) == gathers);
    }
}
