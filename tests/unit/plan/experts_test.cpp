// Weights of experts: what optimizers are told of them, and adapters whose method takes none.
#include <doctest/doctest.h>
#include <plait/optimizer.h>

#include <memory>
#include <string>
#include <string_view>

#include "engine/base/error.hpp"
#include "engine/base/log.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using namespace plait;

std::string experiment(const std::string& adapters = "") {
  return R"([run]
steps = 4
device = "reference"
[batch]
global = 4
[data.train]
type = "synthetic"
fields = ["ids: input i32 [6]", "label: target i32 []"]
[model]
layers = [
  {type = "embedding", name = "ids", vocabulary = 9, width = 8},
  {type = "experts", name = "mlp", experts = 3, top_k = 2, ffn = 5},
  {type = "flatten"},
  {type = "linear", name = "head", out = 4},
]
)" + adapters +
         R"([loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.01
)";
}

struct Planned {
  std::string warnings, problems;
  std::unique_ptr<const plan::Plan> plan;
};
Planned planned(const std::string& toml) {
  static const auto kPlugins = test::load_plugins(
      {"device-reference", "layer-dense", "layer-embedding", "layer-shape", "layer-transformer",
       "layer-loss", "data-synthetic", "optimizer-adamw", "peft-lora"});
  Planned p;
  Log log([&](uint32_t level, std::string_view text) {
    if (level == PLAIT_LOG_WARN) p.warnings += std::string(text) + "\n";
  });
  try {
    p.plan = test::plan_of(toml, {}, test::context_of(kPlugins, 0, &log));
  } catch (const Error& e) {
    p.problems = e.text();
  }
  return p;
}

std::string adapter(const std::string& type, const std::string& match,
                    const std::string& more = "") {
  return "[[model.adapters]]\ntype = \"" + type + "\"\nmatch = [" + match + "]\n" + more;
}

TEST_SUITE_BEGIN("experts");

TEST_CASE("an optimizer is told which parameters are matrices of groups") {
  const Planned p = planned(experiment(adapter("lora", "\"model.mlp.*.weight\"")));
  CAPTURE(p.problems);
  REQUIRE(p.plan);
  size_t n = 0;
  for (const plan::Parameter& one : p.plan->parameters) {
    CAPTURE(one.name);
    const bool grouped = one.name.find("mlp.up.") != std::string::npos ||
                         one.name.find("mlp.down.") != std::string::npos;
    CHECK(((one.flags & PLAIT_PARAMETER_GROUPED) != 0) == grouped);
    n += grouped;
  }
  CHECK(n == 6);  // two weights, with two factors each
}

// Of a sample of 6 tokens, forward and backward: the router, the two products of each expert that
// a token is sent to, and the head.
double flops(double experts, double chosen) {
  const double tokens = 6, width = 8, ffn = 5, classes = 4;
  const double of_token = width * experts + chosen * 2 * width * ffn;
  return 3 * 2 * (tokens * of_token + tokens * width * classes);
}

TEST_CASE("a token counts the products of the experts that it is sent to, three times") {
  const Planned p = planned(experiment());
  REQUIRE_MESSAGE(p.plan, p.problems);
  CHECK(p.plan->flops_per_sample.masked == flops(3, 2));
  std::string one = experiment();
  const std::string_view several = "experts = 3, top_k = 2";
  one.replace(one.find(several), several.size(), "experts = 1, top_k = 1");
  const Planned alone = planned(one);
  REQUIRE_MESSAGE(alone.plan, alone.problems);
  CHECK(alone.plan->flops_per_sample.masked == flops(1, 1));
}

TEST_CASE("a method that takes no experts leaves them, and that is said") {
  Planned p = planned(experiment(adapter("dora", "\"model.mlp.*.weight\"")));
  CAPTURE(p.problems);
  CAPTURE(p.warnings);
  REQUIRE(p.plan);
  CHECK(p.warnings.find("test.toml:18:9: `match` of adapter 'dora' names weights of experts, which "
                        "stay as they are: model.mlp.up.weight, model.mlp.down.weight; dora "
                        "changes no weights of experts, methods that do: lora; change them by an "
                        "entry of another method, or name them in `exclude`") != std::string::npos);
  // Named there, it is as meant.
  const std::string rest = "exclude = [\"*.up.weight\", \"*.down.weight\"]\n";
  p = planned(experiment(adapter("dora", "\"model.mlp.*.weight\"", rest)));
  REQUIRE_MESSAGE(p.plan, p.problems);
  CHECK(p.warnings == "");
  p = planned(experiment(adapter("lora", "\"model.mlp.*.weight\"")));
  REQUIRE_MESSAGE(p.plan, p.problems);
  CHECK(p.warnings == "");
  // Of experts alone nothing would be left.
  p = planned(experiment(adapter("dora", "\"model.mlp.up.weight\"")));
  CHECK(p.problems.find("pattern 'model.mlp.up.weight' matches nothing that dora can change") !=
        std::string::npos);
  CHECK(p.problems.find("dora changes no weights of experts, methods that do: lora") !=
        std::string::npos);
}

TEST_SUITE_END();

}  // namespace
