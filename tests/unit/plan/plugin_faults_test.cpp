// What a plan says of plugins whose functions do what their contract does not allow: of which
// function, what it found and what it expected.
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <vector>

#include "engine/base/error.hpp"
#include "tests/unit/plan/odd_plugin.hpp"
#include "tests/unit/runtime/program_runner.hpp"
#include "tests/unit/support/plans.hpp"

namespace {

using plait::test::fault;

const std::string kExperiment = R"([run]
steps = 4
device = "reference"
[batch]
global = 4
[data.train]
type = "synthetic"
fields = ["x: input f32 [6]", "label: target i32 []"]
[model]
layers = [{type = "linear", name = "a", out = 5, parallel = "column"},
          {type = "linear", name = "head", out = 4, parallel = "row"}]
loss.type = "odd"
metrics = [{type = "odd"}]
[optimizer]
type = "odd"
learning_rate = 0.5
)";

std::unique_ptr<const plait::plan::Plan> plan_of(const std::vector<std::string>& keys) {
  static const auto kPlugins = [] {
    auto all = plait::test::load_plugins({"device-reference", "layer-dense", "data-synthetic"});
    all->load_static(plait::test::kOddPlugin);
    plait::test::odd_device = all->device("reference");
    all->load_static(plait::test::kOddDevice);
    return all;
  }();
  return plait::test::plan_of(kExperiment, keys, plait::test::context_of(kPlugins));
}

// The error of a plan whose items do this wrong; "" if there is none.
std::string error_of(const std::string& wrong, const std::vector<std::string>& keys,
                     uint32_t code) {
  fault = wrong;
  try {
    plan_of(keys);
    return "";
  } catch (const plait::Error& e) {
    CHECK(e.code() == code);
    return e.full_text();
  }
}

struct Case {
  std::string wrong, expected;
  uint32_t code = PLAIT_ERR_CONFIG;
};
void check(const std::vector<std::string>& keys, const std::vector<Case>& cases) {
  CHECK(error_of("nothing", keys, 0).empty());
  for (const Case& c : cases) {
    const std::string text = error_of(c.wrong, keys, c.code);
    CAPTURE(c.wrong);
    CHECK_MESSAGE(text.find(c.expected) != std::string::npos, text);
  }
}

std::string adapter(const std::string& type) {
  return "model.adapters=[{type = \"" + type + "\", name = \"x\", match = [\"*.a*\"]}]";
}

// Why the adapters cannot be merged.
std::string refused(const std::string& wrong, const std::string& type) {
  fault = wrong;
  const auto plan = plan_of({adapter(type)});
  REQUIRE(plan->adapters.merges.size() == 1);
  return plan->adapters.merges[0].refused;
}

}  // namespace

TEST_CASE("plugin faults: a device of no threads, and of too many") {
  const auto error = [](uint32_t threads, uint32_t code = PLAIT_ERR_PLUGIN) {
    plait::test::odd_threads = threads;
    return error_of("", {"run.device=odd"}, code);
  };
  const std::string of = "[plugin odd-device] device 'odd' says it has ",
                    end = " threads, expected 1 to 65536; tell its author";
  CHECK(error(0) == of + "0" + end);
  CHECK(error(65537) == of + "65537" + end);
  // Those it may have; it has no kernels.
  for (const uint32_t threads : {1, 65536})
    CHECK(error(threads, PLAIT_ERR_UNIMPLEMENTED).find("has no kernel") != std::string::npos);
}

TEST_CASE("plugin faults: outputs of a loss and of a metric") {
  const std::string of_loss = "[plugin odd] build() of loss 'odd' ",
                    of_metric = "[plugin odd] build() of metric 'odd' set output 0 to ";
  check({},
        {{"loss without weights", of_loss + "set only 1 outputs, expected 2; tell its author"},
         {"loss without sum", of_loss + "left output 0 unset; tell its author"},
         {"loss of rows", of_loss + "set output 0 to f32 (4, 4), expected a scalar float, the sum "
                                    "of weighted losses; tell its author"},
         {"weights of rows", of_loss + "set output 1 to f32 (4), expected a scalar float, the sum "
                                       "of weights; tell its author"},
         {"metric of rows",
          of_metric + "f32 (4, 4), expected the state, floats (4); tell its author"},
         {"metric of one", of_metric + "f32 (), expected the state, floats (4); tell its author"}});
}

TEST_CASE("plugin faults: a metric of one number may give a scalar, but no matrix") {
  check({"model.metrics=[{type = \"odd.number\"}]"},
        {{"number in a matrix",
          "[plugin odd] build() of metric 'odd.number' set output 0 to f32 (1, 1), expected the "
          "state, floats (1); tell its author"}});
}

TEST_CASE("plugin faults: updates of an optimizer") {
  const std::string build = "[plugin odd] build() of optimizer 'odd' set ";
  const uint32_t code = PLAIT_ERR_PLUGIN;
  check({}, {{"scalar", "to f32 (), expected f32 (", code},
             {"no parameter",
              "[plugin odd] build() of optimizer 'odd' left output 0 unset; tell its author", code},
             {"scalar state", "to f32 (), expected f32 (", code},
             {"state unknown", "set_state('m') before state('m')", PLAIT_ERR_INVALID}});
  CHECK(error_of("scalar", {}, code).find(build) == 0);
  // 5 rows on 2 ranks: one of 6 is padding.
  const std::vector<std::string> two{"topology.tensor=2", "model.layers[1].parallel=none"};
  check(two, {{"moves zeros",
               "[plugin odd] optimizer 'odd' (test.toml:14:1) makes -0.5 of an element whose "
               "parameter and gradient are 0 in step 1, expected 0: the 2 tensor ranks share 5 "
               "entries of 'model.a.weight', and zeros that fill up the shards must stay; use "
               "another optimizer for this parameter, let topology.tensor divide 5, or tell the "
               "optimizer's author",
               code}});
}

TEST_CASE("plugin faults: a PEFT method's parameters and their updates") {
  const std::string of = "[plugin odd] PEFT method 'odd' ",
                    end = " for parameter 'model.a.weight.x.s' of shape f32 (5); tell its author";
  const uint32_t code = PLAIT_ERR_PLUGIN;
  check({adapter("odd")},
        {{"other output",
          "[plugin odd] wrap() of PEFT method 'odd' made f32 () of f32 (4, 5), expected the same "
          "shape; tell its author"},
         {"start of the weight",
          ", which is no parameter of the adapter, for 'model.a.weight'; "
          "tell its author",
          code},
         {"start of one",
          "[plugin odd] start() of PEFT method 'odd' sets the initial value of "
          "'model.a.weight.x.s' to f32 (), expected f32 (5), for 'model.a.weight'; tell its author",
          code},
         {"scores as a matrix", of + "gives the scores f32 (1, 5), expected floats (n),", code},
         {"scores of nothing", of + "returns the id 4000000, which is no value,", code},
         {"other numbers", "scores and 'model.a.weight.x.", code},
         {"update of one", of + "makes f32 ()", code},
         {"update of nothing", of + "returns the id 0, which is no value,", code}});
  CHECK(error_of("", {adapter("odd.many")}, code)
            .find("[plugin odd] start() of PEFT method 'odd.many' sets 17 initial values, expected "
                  "at most 16, for 'model.a.weight'; tell its author") == 0);
}

TEST_CASE("plugin faults: a PEFT method that knows no updates is asked for none") {
  for (const char* wrong : {"scores as a matrix", "other numbers", "update of one"}) {
    CAPTURE(wrong);
    CHECK(error_of(wrong, {adapter("odd.old")}, 0) == "");
  }
}

TEST_CASE("plugin faults: a PEFT method that cannot be merged says so, one that is wrong fails") {
  CHECK(refused("nothing", "odd").empty());
  CHECK(refused("refused", "odd") ==
        "adapter 'x' (model.adapters[0]) of 'model.a.weight': not on a Saturday");
  CHECK(refused("nothing", "odd.layers") ==
        "adapter 'x' (model.adapters[0]) changes what layer 'model.a' makes, not a weight");
  const std::string merge = "[plugin odd] merge() of PEFT method 'odd' sets ";
  const uint32_t code = PLAIT_ERR_PLUGIN;
  check(
      {adapter("odd")},
      {{"broken", "it is broken", code},
       {"weight of one",
        merge + "the weight to f32 (), expected f32 (5, 6), for "
                "'model.a.weight'; tell its author",
        code},
       {"bias of one", merge + "the bias to f32 (), expected f32 (5), for 'model.a.weight'", code},
       {"new parameter", "parameter 'model.a.weight.x.q' f32 (2) is none that wrap() requests",
        code},
       {"longer parameter", "parameter 'model.a.weight.x.r' f32 (3) is f32 (2) in wrap()", code}});
}
