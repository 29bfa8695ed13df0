// FLOPs and tokens of small models, counted by hand.
#include <doctest/doctest.h>

#include <fstream>
#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "tests/support/folder.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;
using namespace plait::plan;

const char* const kDense = R"([run]
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
layers = [{type = "linear", out = 8, parallel = "column"}, {type = "gelu"}, {type = "layer_norm"},
          {type = "linear", out = 5, parallel = "row"}]
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
)";

template <class T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// A file of 100 tokens, of which 11 are different: one document of u8. Returns its path.
std::string token_file() {
  static const test::Folder kFolder;
  std::string index("MMIDIDX\0\0", 9);
  put(index, uint64_t{1});
  put(index, uint8_t{1});
  put(index, uint64_t{1});
  put(index, uint64_t{2});
  put(index, int32_t{100});
  put(index, int64_t{0});
  put(index, int64_t{0});
  put(index, int64_t{1});
  std::string ids;
  for (int i = 0; i < 100; ++i) put(ids, static_cast<uint8_t>(i % 11));
  std::ofstream(kFolder / "t.idx", std::ios::binary) << index;
  std::ofstream(kFolder / "t.bin", std::ios::binary) << ids;
  return kFolder / "t.bin";
}

// A field of tokens (T = 6) into a model of width 8 with 2 heads of 4, 11 classes.
std::string tokens(const std::string& attention, const std::string& loss = "") {
  static const std::string kPath = token_file();
  return R"([run]
steps = 4
device = "reference"
[batch]
global = 4
[data.train]
type = "tokens"
length = 6
path = ")" +
         kPath +
         R"("
[model]
layers = [{type = "embedding", vocabulary = 11, width = 8},
          {type = "attention", heads = 2)" +
         attention + R"(}, {type = "linear", out = 11, bias = false}]
[loss]
type = "cross_entropy"
)" + loss +
         R"([optimizer]
type = "adamw"
learning_rate = 0.01
)";
}

std::unique_ptr<const Plan> plan_of(const std::string& toml, const std::vector<std::string>& keys,
                                    std::vector<std::string>* lines = nullptr) {
  static const auto kPlugins =
      test::load_plugins({"device-reference", "layer-dense", "layer-activation", "layer-norm",
                          "layer-embedding", "layer-transformer", "layer-loss", "layer-metric",
                          "data-synthetic", "data-tokens", "optimizer-adamw"});
  Log log{[lines](uint32_t, std::string_view text) {
    if (lines) lines->emplace_back(text);
  }};
  return test::plan_of(toml, keys, test::context_of(kPlugins, 0, &log));
}

}  // namespace

TEST_CASE("the products of layers count, three times, whatever the ranks") {
  // 2 * (18 * 8 + 8 * 5) forward.
  const double sample = 3 * 2 * (18 * 8 + 8 * 5);
  const std::vector<std::vector<std::string>> all = {
      {},
      {"batch.micro=3"},
      {"topology.tensor=2", "topology.recompute=layer"},
      {"topology.data=2", "topology.zero=2"},
      {"topology.pipeline=2", "batch.accumulation=2"}};
  for (const auto& keys : all) {
    const auto plan = plan_of(kDense, keys);
    CHECK(plan->flops_per_sample.masked == sample);
    CHECK(plan->flops_per_sample.full == sample);
    CHECK(plan->tokens_per_sample == 0);  // labels are looked up nowhere
    CHECK_FALSE(plan->models[0].has_perplexity);
  }
}

TEST_CASE("a frozen weight multiplies twice, and stays in its stage, whatever its type") {
  const std::vector<std::string> keys = {"topology.pipeline=2", "batch.accumulation=2",
                                         "model.train=[\"model.linear2.*\"]"};
  for (const std::vector<std::string>& types :
       {std::vector<std::string>{},
        {"precision.compute=bf16"},
        {"precision.compute=bf16", "precision.frozen=compute"},
        {"precision.compute=bf16", "precision.master=false"}}) {
    CAPTURE(types);
    std::vector<std::string> all = keys;
    all.insert(all.end(), types.begin(), types.end());
    const auto plan = plan_of(kDense, all);
    CHECK(plan->flops_per_sample.masked == 2 * 2 * 18 * 8 + 3 * 2 * 8 * 5);
    CHECK(plan->parameter("model.linear1.weight")->holders == std::vector<int32_t>{0});
    CHECK(plan->parameter("model.linear2.weight")->holders == std::vector<int32_t>{1});
  }
}

TEST_CASE("attention counts the pairs of its mask, and all pairs beside them") {
  const double t = 6, width = 8, classes = 11;
  const double matrices = t * (4 * width * width + width * classes);  // q, k, v, output; head
  const auto flops = [&](double pairs) { return 3 * (2 * matrices + 4 * width * pairs); };
  const auto causal = plan_of(tokens(", bias = false"), {});
  CHECK(causal->tokens_per_sample == 6);
  CHECK(causal->flops_per_sample.masked == flops(t * (t + 1) / 2));
  CHECK(causal->flops_per_sample.full == flops(t * t));
  CHECK(causal->models[0].has_perplexity);
  const auto low = plan_of(tokens(", bias = false"), {"precision.compute=bf16"});
  CHECK(low->flops_per_sample.masked == causal->flops_per_sample.masked);
  CHECK(low->flops_per_sample.full == causal->flops_per_sample.full);
  // A window of 2: each query sees itself and the one before it.
  const auto local = plan_of(tokens(", bias = false, window = 2"), {});
  CHECK(local->flops_per_sample.masked == flops(2 * t - 1));
  CHECK(local->flops_per_sample.full == flops(t * t));
}

TEST_CASE("only the plain log-likelihood of tokens has a perplexity") {
  CHECK_FALSE(plan_of(tokens("", "label_smoothing = 0.1\n"), {})->models[0].has_perplexity);
  CHECK_FALSE(plan_of(tokens("", "weight = 0.5\n"), {})->models[0].has_perplexity);
}

TEST_CASE("metrics that nothing computes are reported") {
  const auto lines_of = [](const char* keys) {
    std::vector<std::string> lines;
    plan_of(std::string(kDense) + "[[metrics]]\ntype = \"accuracy\"\n" + keys, {}, &lines);
    return lines;
  };
  CHECK(lines_of("").empty());  // training steps have them
  const std::vector<std::string> lines = lines_of("train = false\n");
  REQUIRE(lines.size() == 1);
  INFO(lines[0]);
  CHECK(lines[0].find("metrics[0] has no effect in a run") != std::string::npos);
  CHECK(lines[0].find("there is no [data.eval]") != std::string::npos);
}
