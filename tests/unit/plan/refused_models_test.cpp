// What a plan refuses of models, of what they read and of what they load: whole messages.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/plan/experiments.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;

using Keys = std::vector<std::string>;

const std::string kDense = test::experiment_text(
    {.data = test::synthetic(R"("x: input f32 [6]", "label: target i32 []", "y: target f32 [4]")"),
     .layers = R"({type = "linear", name = "a", out = 6}, {type = "relu", name = "r"},
          {type = "gelu", name = "g"}, {type = "linear", name = "head", out = 4})",
     .loss = R"(from = ["output", "label"]
)"});

const std::string kTokens = test::experiment_of_tokens(
    R"("x: input f32 [6]", "ids: input i32 [6]", "label: target i32 [6]")",
    R"(name = "e", from = ["ids"])");

std::string refusal(const std::string& toml, const Keys& keys) {
  static const auto kPlugins =
      test::load_plugins({"device-reference", "layer-dense", "layer-activation", "layer-embedding",
                          "layer-shape", "layer-transformer", "layer-norm", "layer-loss",
                          "layer-metric", "data-synthetic", "optimizer-adamw", "peft-lora"});
  const Error e = test::error_of([&] { test::plan_of(toml, keys, test::context_of(kPlugins)); });
  if (e.code() == PLAIT_OK) return "";
  CHECK(e.code() == PLAIT_ERR_CONFIG);
  return e.full_text();
}

struct Case {
  const char* what;
  Keys keys;
  std::string expected;  // all behind the place of the key
};

void check(const std::string& toml, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    CAPTURE(c.what);
    const std::string text = refusal(toml, c.keys);
    const bool right = c.expected.empty() ? text.empty() : text.ends_with(c.expected);
    CHECK_MESSAGE(right, text);
    CHECK(text.find(" problems in") == std::string::npos);
  }
}

}  // namespace

TEST_CASE("refused: parameters that weights may lack and that are none") {
  const std::string load = "model.load=w.safetensors", lora = "{type = \"lora\", name = \"x\", ";
  check(kDense, {{"one that is there", {load, "model.load_missing=[\"*.head.*\"]"}, ""},
                 {"of the model",
                  {load, "model.load_missing=[\"model.heat.bias\"]"},
                  "model.load_missing: pattern 'model.heat.bias' matches no parameter (did you "
                  "mean 'model.head.bias'?); the parameters are: model.a.weight, model.a.bias, "
                  "model.head.weight, model.head.bias"},
                 {"of an adapter, as it is",
                  {"model.adapters=[" + lora +
                   "match = [\"*.a.weight\"], load = \"w.safetensors\", "
                   "load_missing = [\"*.b\"]}]"},
                  ""},
                 {"of an adapter: the model's are none",
                  {"model.adapters=[" + lora +
                   "match = [\"*.a.weight\"], load = \"w.safetensors\", "
                   "load_missing = [\"*.bias\"]}]"},
                  "model.adapters[0].load_missing: pattern '*.bias' matches no parameter; the "
                  "parameters are: model.a.weight.x.a, model.a.weight.x.b"}});
  check(kTokens,
        {{"only to generate",
          {load, "model.load_missing=[\"*.c.*\"]", "generate.only=true", "generate.input=ids"},
          ""},
         {"not only",
          {load, "model.load_missing=[\"*.c.*\"]"},
          "model.load_missing: pattern '*.c.*' matches no parameter; the parameters are: "
          "model.e.weight, model.attn.q.weight, model.attn.k.weight, model.attn.v.weight, "
          "model.attn.out.weight, model.head.weight, model.head.bias"}});
}

TEST_CASE("refused: checkpoints of what is trained without the weights of the rest") {
  const std::string trained = "checkpoint.save=trained", every = "checkpoint.every=2";
  check(kDense, {{"all is trained", {trained, every}, ""},
                 {"a part",
                  {trained, every, "model.train=[\"*.head.*\"]"},
                  "model.load: names no weights, and checkpoint.save = \"trained\" leaves out the "
                  "frozen parameters, 'model.a.weight' among them; name the weights of the base, "
                  "or set checkpoint.save = \"all\""},
                 {"a part, and the rest is there",
                  {trained, every, "model.train=[\"*.head.*\"]", "model.load=w.safetensors"},
                  ""}});
}

TEST_CASE("refused: metrics of what is no class") {
  const std::string metric = "metrics=[{type = \"accuracy\", from = [\"output\", \"y\"]";
  check(kDense, {{"in training",
                  {metric + "}]"},
                  "metrics[0]: accuracy 'model.accuracy' of plugin layer-metric cannot be built\n  "
                  "  [model.accuracy] the labels are f32 (4, 4), expected integers (u8, i32, i64); "
                  "of a csv file set target_type = \"i32\", an array save as integers; if it is "
                  "meant for evaluations alone: train = false"},
                 {"in evaluations alone",
                  {metric + ", train = false}]"},
                  "metrics[0]: accuracy 'model.accuracy' of plugin layer-metric cannot be built\n  "
                  "  [model.accuracy] the labels are f32 (4, 4), expected integers (u8, i32, i64); "
                  "of a csv file set target_type = \"i32\", an array save as integers"}});
}

TEST_CASE("refused: names of values that are not there") {
  const auto layers = [](const std::string& from) {
    return "model.layers=[{type = \"linear\", name = \"a\", out = 6}, {type = \"linear\", name = "
           "\"head\", out = 4, from = [\"" +
           from + "\"]}]";
  };
  check(kDense, {{"a layer", {layers("a")}, ""},
                 {"none",
                  {layers("aa")},
                  "model.layers[1].from: [model.head] there is no value 'aa' at this point (did "
                  "you mean 'a'?); there are: label, weight, x, y, and the output of each layer "
                  "before, by the layer's name"}});
}

TEST_CASE("refused: generation without tokens") {
  check(kTokens,
        {{"as it is", {}, ""},
         {"integers for a sample alone",
          {"data.train.fields=[\"x: input f32 [6]\", \"ids: input i32 []\", \"label: target i32 "
           "[]\"]",
           "model.layers=[{type = \"linear\", out = 9, from = [\"x\"]}]"},
          "generate.slots: [data.train] has no field of token ids, an integer for each token of a "
          "sample; generate with a model that reads token ids"},
         {"a field of no integers",
          {"generate.input=x"},
          "[generate] model 'model' reads no token ids from the field 'x'; set generate.input to "
          "the input of the model that takes them"},
         {"the model reads none of them",
          {"model.layers=[{type = \"linear\", from = [\"x\"], out = 9}]",
           "data.train.fields=[\"x: input f32 [6]\", \"ids: input i32 [6]\", \"label: target i32 "
           "[]\"]"},
          "[generate] model 'model' reads no token ids from the fields ids; set generate.input to "
          "the input of the model that takes them"},
         {"no attention",
          {"model.layers=[{type = \"embedding\", from = [\"ids\"], vocabulary = 9, width = 9}]"},
          "[generate] model 'model' has no attention, so there is nothing to cache; generate.slots "
          "= 0"},
         {"one token",
          {"generate.length=1"},
          "generate.length: 1, which leaves no room for a token behind a prompt; set it to the "
          "most tokens of a sequence, its prompt included"}});
}

TEST_CASE("refused: activations that do not fit, of each rank of a pipeline") {
  const Keys budget{"topology.recompute=budget", "topology.recompute_budget=0.00001"};
  Keys pipeline = budget, chunks = budget;
  for (const char* key : {"topology.pipeline=2", "batch.accumulation=2"}) {
    pipeline.emplace_back(key);
    chunks.emplace_back(key);
  }
  chunks.emplace_back("topology.schedule=interleaved");
  chunks.emplace_back("topology.virtual_stages=2");
  check(kDense,
        {{"one rank", budget,
          "topology.recompute_budget: the activations of the training program take 576 B at least, "
          "even with full recomputation; topology.recompute_budget allows 10 B; raise it, or lower "
          "batch.micro"},
         {"two", pipeline,
          "topology.recompute_budget: the activations of the training program take 544 B at least "
          "in stage 0, 496 B at least in stage 1, even with full recomputation; "
          "topology.recompute_budget allows 10 B; raise it, or lower batch.micro"},
         {"two with two stages each", chunks,
          "topology.recompute_budget: the activations of the training program take 896 B at least "
          "in stages 0, 2, 976 B at least in stages 1, 3, even with full recomputation; "
          "topology.recompute_budget allows 10 B; raise it, or lower batch.micro"}});
}
