// What a plan warns of: settings that change nothing, and those that are hardly meant.
#include "engine/plan/warnings.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;

const char* const kExperiment = R"([run]
steps = 4
device = "reference"
[batch]
global = 12
[data.train]
type = "synthetic"
samples = 48
shape = [18]
classes = 5
[model]
layers = [{type = "linear", out = 8}, {type = "gelu"}, {type = "linear", out = 5}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
)";
const std::string kEval =
    "data.eval={type = \"synthetic\", samples = 48, shape = [18], classes = 5}";

using Texts = std::vector<std::string>;

const std::shared_ptr<plugin::Registry>& plugins() {
  static const auto kPlugins =
      test::load_plugins({"device-reference", "layer-dense", "layer-activation", "layer-loss",
                          "layer-metric", "data-synthetic", "optimizer-adamw"});
  return kPlugins;
}

struct Told {
  Texts warnings;
  Log log{[this](uint32_t level, std::string_view text) {
    if (level == PLAIT_LOG_WARN) warnings.emplace_back(text);
  }};
};

Texts warnings_of(const Texts& keys, int32_t rank = 0) {
  Told told;
  test::plan_of(kExperiment, keys, test::context_of(plugins(), rank, &told.log));
  return told.warnings;
}

// One warning with each of these texts, and no other.
void check(const Texts& keys, const Texts& expected) {
  CAPTURE(keys);
  const Texts found = warnings_of(keys);
  CAPTURE(found);
  REQUIRE(found.size() == expected.size());
  for (size_t i = 0; i < found.size(); ++i)
    CHECK_MESSAGE(found[i].find(expected[i]) != std::string::npos, found[i]);
}

}  // namespace

TEST_CASE("a setting that has no effect is told, with the reason") {
  check({}, {});
  check({"topology.virtual_stages=2"},
        {": topology.virtual_stages has no effect: topology.pipeline is 1"});
  check({"topology.zero=1"}, {": topology.zero has no effect: topology.data is 1"});
  check({"topology.zero=1", "topology.data=2"}, {});
  check({"topology.virtual_stages=1", "topology.zero=0", "evaluate.every=0"}, {});

  const Texts split = {"precision.compute=bf16", "precision.split_master=true", "topology.data=2"};
  const auto with = [](Texts keys, const std::string& key) {
    keys.push_back(key);
    return keys;
  };
  check(with(split, "topology.zero=3"),
        {": precision.split_master has no effect: with topology.zero = 3 there are no copies"});
  check(with(split, "topology.zero=2"), {});

  for (const std::string type : {"f32", "f64"})
    check({"precision.frozen=compute", "precision.compute=" + type},
          {": precision.frozen has no effect: precision.compute is \"" + type +
           "\", as all weights are kept"});
  check({"precision.frozen=compute", "precision.compute=bf16"},
        {": precision.frozen has no effect: the model has no frozen weights"});
  check({"precision.frozen=master"}, {});
}

TEST_CASE("settings of 8-bit products are told where there are none") {
  const std::string why = " has no effect: precision.products is \"compute\"";
  check({"precision.fp8.scaling=row"}, {": precision.fp8.scaling" + why});
  check({"precision.fp8.forward=\"off\"", "precision.fp8.except=[\"*.head.*\"]"},
        {": precision.fp8.forward" + why, ": precision.fp8.except" + why});
  check({"precision.fp8.scaling=tensor", "precision.fp8.except=[]"}, {});  // the defaults
}

TEST_CASE("8-bit products of which none is left are told") {
  const Texts all = {"precision.compute=bf16", "precision.products=fp8",
                     "precision.fp8.forward=\"off\"", "precision.fp8.grad_input=\"off\""};
  check(all, {});
  Texts none = all;
  none.emplace_back("precision.fp8.grad_weight=\"off\"");
  check(none, {": precision.products has no effect: all three products of [precision.fp8] are "
               "\"off\""});
}

TEST_CASE("a pipeline with few micro-batches is told, with what to set") {
  check({"topology.pipeline=2", "batch.accumulation=2"}, {});
  check({"topology.pipeline=2"},
        {"[plan] 1 micro-batch in a pipeline of 2 ranks: the ranks idle 50 % of the time; set "
         "batch.accumulation to 4 or more"});
  check({"topology.pipeline=2", "batch.micro=12"}, {"; set batch.micro to 3 or less"});
  check({"topology.pipeline=3", "batch.global=10", "batch.accumulation=2"},
        {"[plan] 2 micro-batches in a pipeline of 3 ranks: the ranks idle 47 % of the time; set "
         "batch.accumulation to 10 or more"});
}

TEST_CASE("a parameter on which no loss depends is told once") {
  const std::string side =
      "model.layers=[{type = \"linear\", name = \"a\", out = 8}, {type = \"linear\", name = "
      "\"side\", out = 3, bias = false}, {type = \"linear\", name = \"b\", from = [\"a\"], "
      "out = 5}]";
  const Texts told = {
      "[plan] no loss depends on parameter 'model.side.weight'; only weight decay "
      "will change it"};
  check({side}, told);
  check({side, "topology.data=2", "batch.accumulation=2"}, told);
  check({side, "topology.pipeline=2", "batch.accumulation=2"}, told);
  check({side, "topology.recompute=budget", "topology.recompute_budget=0.0015"}, told);
}

TEST_CASE("fields and states that nothing has are told") {
  check({"data.train={type = \"synthetic\", fields = [\"x: input f32 [18]\", \"label: target i32 "
         "[]\", \"extra: input f32 []\", \"other: target f32 []\"]}",
         "model.layers[0].from=[\"x\"]", "loss.from=[\"output\", \"label\"]"},
        {": nothing reads the field 'extra' of [data.train], so it has no effect; name it in "
         "`from`, or in the option of a layer that takes such a field (documents, positions), or "
         "leave it out"});
  const Texts states = {"precision.compute=bf16", "precision.states=bf16"};
  check(states, {});
  check({states[0], states[1], "model.train=[\"*.bias\"]"},
        {": precision.states has no effect: no weight that is trained has two or more dimensions"});
}

TEST_CASE("what is for evaluations is told where there are none") {
  const std::string metric = "metrics=[{type = \"accuracy\", train = false}]",
                    in_training = "metrics=[{type = \"accuracy\"}]",
                    both = "metrics=[{type = \"accuracy\", train = false}, {type = \"accuracy\"}]";
  const std::string only =
      " has no effect in a run: it is computed in evaluations alone, and there is no [data.eval]";
  check({"evaluate.every=2"}, {": evaluate.every has no effect: there is no [data.eval]"});
  check({"evaluate.every=2", kEval}, {});
  check({metric}, {": metrics[0]" + only});
  check({in_training}, {});
  check({both}, {": metrics[0]" + only});
  check({metric, kEval}, {});
}

TEST_CASE("a batch that is larger than the dataset is told, with what is padded") {
  check({"batch.global=48"}, {});
  check({"batch.global=60"},
        {": batch.global is 60, but [data.train] has 48 samples: each step pads its batch with 12 "
         "empty samples; use batch.global = 48 or less"});
  check({"batch.global=12", "data.train.limit=10"},
        {": batch.global is 12, but [data.train] has 10 samples: each step pads its batch with 2 "
         "empty samples; use batch.global = 10 or less"});
  check({"batch.global=12", "data.train.limit=12"}, {});
}

TEST_CASE("one rank of a job warns") {
  const Texts keys = {"topology.data=2", "evaluate.every=2", "batch.global=60"};
  CHECK(warnings_of(keys, 0).size() == 2);
  CHECK(warnings_of(keys, 1).empty());
}

TEST_CASE("more threads than cores are told where the device uses them") {
  const int64_t cores = sysconf(_SC_NPROCESSORS_ONLN);
  const auto of = [&](int64_t threads, int64_t used) {
    Told told;
    const config::Experiment e = test::experiment_of(
        kExperiment, {"run.threads=" + std::to_string(threads)}, test::context_of(plugins()));
    plan::warn_many_threads(e, used, &told.log);
    plan::warn_many_threads(e, used, nullptr);
    return told.warnings;
  };
  CHECK(of(0, cores + 1).empty());
  CHECK(of(cores, cores).empty());
  CHECK(of(cores + 1, cores).empty());
  const Texts told = of(cores + 1, cores + 1);
  REQUIRE(told.size() == 1);
  CHECK(told[0].find(": run.threads is " + std::to_string(cores + 1) + ", and this machine has " +
                     std::to_string(cores) + " cores: ") != std::string::npos);
}
