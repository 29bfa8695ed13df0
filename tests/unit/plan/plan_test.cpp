// What sessions and tools ask of a plan before it is made, and of one that is.
#include "engine/plan/plan.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/base/text.hpp"
#include "engine/plan/every_rank.hpp"
#include "engine/plan/field_texts.hpp"
#include "engine/plan/measured_times.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;
using namespace plait::plan;

const char* const kExperiment = R"([run]
steps = 7
device = "reference"
[batch]
global = 4
eval = 2
[data.train]
type = "synthetic"
samples = 12
prefetch = 3
shape = [3]
classes = 2
[data.eval]
type = "synthetic"
samples = 5
limit = 4
shape = [3]
classes = 2
[model]
layers = [{type = "linear", out = 2}]
[loss]
type = "cross_entropy"
[optimizer]
type = "sgd"
learning_rate = 0.5
)";

std::unique_ptr<const Plan> planned(const std::vector<std::string>& keys, int32_t rank = 0) {
  static const auto kPlugins = test::load_plugins(
      {"device-reference", "layer-dense", "layer-loss", "data-synthetic", "optimizer-sgd"});
  return test::plan_of(kExperiment, keys, test::context_of(kPlugins, rank));
}

}  // namespace

TEST_CASE("plan: steps are those that are given, or epochs of whole batches") {
  const auto steps = [](const std::vector<std::string>& keys) {
    const auto plan = planned(keys);
    return strf("%d of %d", static_cast<int>(plan->total_steps),
                static_cast<int>(plan->steps_per_epoch));
  };
  CHECK(steps({}) == "7 of 3");
  CHECK(steps({"~run.steps", "run.epochs=2"}) == "6 of 3");
  CHECK(steps({"~run.steps", "run.epochs=2", "data.train.limit=5"}) == "4 of 2");
  CHECK(steps({"~run.steps", "run.epochs=2", "data.train.limit=1"}) == "2 of 1");
}

TEST_CASE("plan: batches of training have no end, those of an evaluation one") {
  const auto plan = planned({"topology.data=2", "run.seed=9"}, 1);
  const data::DataLoaderConfig train = loader_config(*plan, "train", true),
                               eval = loader_config(*plan, "eval", false);
  CHECK(train.batch == 4);
  CHECK(train.rows == 2);
  CHECK(train.row_begin == 2);
  CHECK(train.endless);
  CHECK(train.by_epoch);
  CHECK(train.shuffle);
  CHECK(train.seed == 9);
  CHECK(train.prefetch == 3);
  CHECK(train.limit == 0);
  CHECK(eval.batch == 2);
  CHECK(eval.rows == 1);
  CHECK(eval.row_begin == 1);
  CHECK_FALSE(eval.endless);
  CHECK_FALSE(eval.by_epoch);
  CHECK_FALSE(eval.shuffle);
  CHECK(eval.limit == 4);
  CHECK_FALSE(loader_config(*planned({"data.train.shuffle=false"}), "train", true).shuffle);
}

TEST_CASE("plan: the ranks that a topology wants, 1 where there cannot be so many") {
  const auto ranks = [](int64_t pipeline, int64_t data, int64_t tensor) {
    config::TopologyConfig t;
    t.pipeline = pipeline;
    t.data = data;
    t.tensor = tensor;
    return ranks_wanted(t);
  };
  constexpr int64_t kMost = topology::kMaxRanks;
  CHECK(ranks(2, 3, 4) == 24);
  CHECK(ranks(2, 0, 4) == 8);  // the number of processes decides
  CHECK(ranks(kMost, 1, 1) == kMost);
  CHECK(ranks(1, kMost + 1, 1) == 1);
  CHECK(ranks(2, 1, kMost / 2 + 1) == 1);
  CHECK(ranks(2, -1, 2) == 1);
}

TEST_CASE("plan: a field is read as it is written") {
  for (const char* text : {"x: input f32 [28,28]", "label: target i32 []", "a b: weight f32 []",
                           "none: input f64 [3,0]", "x: y: input bf16 [1]"}) {
    CAPTURE(text);
    ParsedField parsed = parse_field(text);
    parsed.field.name = parsed.name.c_str();
    CHECK(field_text(parsed.field) == text);
  }
  for (const std::string wrong :
       {"x input f32 [3]", ": input f32 [3]", "x: output f32 [3]", "x: input f23 [3]",
        "x: input f32 3", "x: input f32 [-1]", "x: input f32 [3,]", "x: input f32",
        "x: input f32 [1,1,1,1,1,1,1,1]"}) {
    CAPTURE(wrong);
    CHECK(test::error_of([&] { parse_field(wrong); }, PLAIT_ERR_CONFIG) ==
          "[data] found \"" + wrong +
              "\", expected a field as \"x: input f32 [28,28]\": name, input, target or weight, "
              "type, and shape of a sample");
  }
}

TEST_CASE("plan: the report of every rank is JSON, with a row for each stage") {
  const PlanContext context = test::context_of(planned({})->registry);
  config::Problems problems;
  const auto job = plan_every_rank(test::experiment_of(kExperiment, {"topology.data=2"}, context),
                                   context, problems);
  problems.raise_if_any();
  const auto report = nlohmann::json::parse(describe(*job));
  CHECK(report.at("topology").at("ranks") == 2);
  CHECK(report.at("planned_ranks") == 1);
  REQUIRE(report.at("stages").size() == 1);
  CHECK(report.at("stages")[0].at("ranks") == 2);
  CHECK(report.at("stages")[0].at("idle_share") == 0);
  CHECK(report.at("stages")[0].at("memory").at("arena") == job->memory_of({0, 0, 0}).arena);
}

TEST_CASE("plan: what makes a prediction of a profile doubtful is told") {
  const auto doubts = [](const std::string& launches, int threads,
                         const std::vector<std::string>& keys) {
    const MeasuredTimes times(strf(
        R"({"entry_point": "train_step", "device": "reference", "launches": "%s", "threads": %d,
            "runs": 1, "ranks": 1, "seconds": 1, "layers": [], "outside_seconds": 0, "ops": [],
            "layout": {"pipeline": 1, "data": 1, "tensor": 1, "zero": 0, "micro_batch": 4,
                       "sequence": false}, "launches_of_a_run": 0})",
        launches.c_str(), threads));
    return join(times.doubts(*planned(keys)), "; ");
  };
  CHECK(doubts("one by one", 1, {}) == "");
  CHECK(doubts("one by one", 3, {}) ==
        "a rank of the profile computed on 3 threads, one of this plan has 1");
  CHECK(doubts("captured", 3, {}) == "");
  CHECK(doubts("one by one", 1, {"topology.data=2"}) ==
        "the profile has 1 replicas (zero = 0), this plan 2 (zero = 0): their collectives may take "
        "other times");
}

TEST_CASE("plan: a measured call has the name of its collective") {
  const auto plan = planned({"topology.data=2"});
  std::vector<std::string> names;
  for (const Program& p : plan->programs)
    for (const KernelCall& c : p.calls) {
      const std::string name = measured_op(*plan, p, c).collective;
      if (c.collective < 0)
        CHECK(name == "");
      else if (names.empty() || names.back() != name)
        names.push_back(name);
    }
  const std::string sums = "losses and weights", gradients = "gradients of model.default, bucket 0";
  const std::vector<std::string> expected{sums, gradients, sums, gradients,
                                          "metrics of an evaluation"};
  CHECK_MESSAGE(names == expected, join(names));
}
