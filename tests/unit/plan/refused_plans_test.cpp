// What a plan refuses of an experiment whose keys are each in order: which key it names, and what
// it says to do.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "tests/unit/plan/experiments.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;

const std::shared_ptr<plugin::Registry>& plugins() {
  static const auto kPlugins = test::load_plugins(
      {"device-reference", "layer-dense", "layer-activation", "layer-embedding", "layer-shape",
       "layer-transformer", "layer-norm", "layer-loss", "layer-metric", "data-synthetic",
       "optimizer-adamw", "optimizer-sgd", "peft-lora", "peft-bitfit"});
  return kPlugins;
}

struct Refusal {
  uint32_t code = PLAIT_OK;
  std::string text;
};

Refusal refusal(const std::string& toml, const std::vector<std::string>& keys) {
  try {
    test::plan_of(toml, keys, test::context_of(plugins()));
    return {};
  } catch (const Error& e) {
    return {e.code(), e.text()};
  }
}

struct Case {
  const char* what;
  std::vector<std::string> keys;
  std::string expected;
  uint32_t code = PLAIT_ERR_CONFIG;
};

void check(const std::string& toml, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const Refusal found = refusal(toml, c.keys);
    CHECK(found.code == c.code);
    CHECK_MESSAGE(found.text.find(c.expected) != std::string::npos, found.text);
    // No other problem that follows from it.
    CHECK_MESSAGE(found.text.find(" problems in") == std::string::npos, found.text);
  }
}

const std::string kDense = test::experiment_text(
    {.data = test::synthetic(R"("x: input f32 [6]", "label: target i32 []")"),
     .layers = R"({type = "linear", name = "a", out = 6}, {type = "relu", name = "r"},
          {type = "linear", name = "head", out = 4})",
     .loss = ""});

const std::string kTokens = test::experiment_of_tokens(
    R"("ids: input i32 [6]", "other: input i32 [6]", "label: target i32 [6]")", R"(name = "ids")");

}  // namespace

TEST_CASE("refused: models and data that do not fit together") {
  check(kDense,
        {{"as it is", {}, "", PLAIT_OK},
         {"only targets",
          {"data.train.fields=[\"x: target f32 [6]\"]"},
          "[data.train] has no input field for the first layer; name one with `from`"},
         {"only inputs",
          {"data.train.fields=[\"x: input f32 [6]\"]"},
          "[data.train] has no target field to compare with; name one with from = [...]"},
         {"nothing to normalise",
          {"data.train.fields=[\"x: input i32 [6]\", \"label: target i32 []\"]",
           "model.layers=[{type = \"embedding\", vocabulary = 9, width = 2}, {type = \"flatten\"}, "
           "{type = \"linear\", out = 4}]",
           "data.train.normalize=auto"},
          "data.train.normalize.\"*\": the dataset has no input of real numbers to normalise; its "
          "fields are: x, label"},
         {"nothing to train",
          {"model.layers=[{type = \"relu\"}]"},
          "model: has a loss but no parameter to train; add a layer with parameters, name some "
          "with `train`, or set frozen = true"},
         {"all is frozen",
          {"model.frozen=true", "~optimizer", "~loss"},
          "model: no model has a loss and an optimizer, so there is nothing to train; add [loss] "
          "and [optimizer]"}});
}

TEST_CASE("refused: adapters that change nothing, or a thing twice") {
  const auto adapter = [](const std::string& keys) { return "model.adapters=[" + keys + "]"; };
  const std::string lora = "{type = \"lora\", match = [\"*.a.*\"]";
  check(kDense,
        {{"a pattern without a value",
          {adapter(lora + ", rank_pattern = [\"model.a\"]}")},
          ": model.adapters[0]: [peft-lora] rank_pattern has 'model.a', expected PATTERN=NUMBER"},
         {"nothing of its kind is held",
          {"model.layers=[{type = \"linear\", name = \"a\", out = 4, bias = false}]",
           adapter("{type = \"bitfit\", match = [\"*.a.*\"]}")},
          "model.adapters[0]: adapter 'bitfit' changes nothing; bitfit finds nothing to change in "
          "model.a.weight; see plait plugins bitfit"},
         {"two entries",
          {adapter(lora + ", name = \"x\"}, {type = \"lora\", match = [\"*\"], name = \"x\"}")},
          "model.adapters[1]: [plan] adapter 'x' has two entries that change 'model.a.weight', "
          "model.adapters[0] (override 'model.adapters="}});
}

TEST_CASE("refused: generation where it cannot be") {
  const std::vector<std::string> kFlat{
      "model.layers=[{type = \"embedding\", name = \"ids\", vocabulary = 9, width = 8}, "
      "{type = \"attention\", heads = 2, causal = true}, {type = \"flatten\"}, "
      "{type = \"linear\", out = 4}]",
      "data.train.fields=[\"ids: input i32 [6]\", \"label: target i32 []\"]"};
  check(kTokens,
        {{"as it is", {}, "", PLAIT_OK},
         {"stages",
          {"topology.pipeline=2"},
          "generate.slots: 2, with topology.pipeline = 2; generate on tensor ranks, or without a "
          "pipeline"},
         {"only asked for, so that there is one slot",
          {"topology.pipeline=2", "~generate.slots", "generate.only=true"},
          "generate.slots: 1, with topology.pipeline = 2"},
         {"another model",
          {"generate.model=modle"},
          "generate.model: there is no model 'modle' (did you mean 'model'?); name one of: model"},
         {"a field that is not read",
          {"generate.input=other"},
          "[generate] model 'model' reads no token ids from the field 'other'; set generate.input "
          "to the input of the model that takes them"},
         {"an end beyond the vocabulary",
          {"generate.end=[9]"},
          "[generate] generate.end has the id 9, expected ids of model 'model', 0 to 8"},
         {"an end of the vocabulary", {"generate.end=[0, 8]"}, "", PLAIT_OK},
         {"one of all tokens",
          {kFlat[0], kFlat[1], "generate.length=6"},
          "[generate] 'model.flatten1' (reshape) makes f32 (2, 48) of all tokens of a sample, so "
          "the model cannot be generated token by token"},
         {"a parameter for each token",
          {kFlat[0], kFlat[1]},
          "[model.linear1] parameter 'model.linear1.weight' has shape f32 (4, 48) in training, "
          "here it is f32 (4, 64); set generate.length to the tokens of a training sample"}});
}

TEST_CASE("refused: of several models generation names one") {
  std::string two = kTokens;
  const size_t at = two.find("[model]\n"), loss = two.find("[loss]"), end = two.find("[generate]");
  const std::string model = two.substr(at + 8, loss - at - 8), rest = two.substr(end);
  two = two.substr(0, at);
  for (const std::string name : {"small", "large"})
    two += "[models." + name + "]\n" + model + "[models." + name +
           ".loss]\ntype = \"cross_entropy\"\n[models." + name +
           ".optimizer]\ntype = \"adamw\"\nlearning_rate = 0.01\n";
  check(two + rest,
        {{"none", {}, "generate.model: there are several models; name one of: "},
         {"another",
          {"generate.model=lrage"},
          "generate.model: there is no model 'lrage' (did you mean 'large'?); name one of: "},
         {"one of them", {"generate.model=large"}, "", PLAIT_OK}});
}

TEST_CASE("refused: statistics of layers on the stages of a pipeline") {
  const std::vector<std::string> keys{"statistics.every=1", "statistics.of=[\"activations\"]"};
  check(kDense,
        {{"one stage", keys, "", PLAIT_OK},
         {"two stages",
          {keys[0], keys[1], "topology.pipeline=2"},
          "statistics.of: activations need all layers on each rank, found topology.pipeline = 2; "
          "leave out activations and activation_gradients"},
         {"two stages, of gradients",
          {keys[0], "statistics.of=[\"gradients\"]", "topology.pipeline=2"},
          "",
          PLAIT_OK}});
}
