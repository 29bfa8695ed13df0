// PEFT methods on weights that lie as (I,O): merged they compute what the adapter did, and grids
// change nothing.
#include <plait/adapters.hpp>

#include "tests/parallel/layouts.hpp"

namespace {

using namespace parallel;

constexpr char kModel[] = R"(
[run]
steps = 40
device = "reference"
[batch]
global = 8
eval = 8
[data.train]
type = "synthetic"
samples = 64
shape = [6]
classes = 4
[data.eval]
type = "synthetic"
samples = 32
shape = [6]
classes = 4
[loss]
type = "cross_entropy"
[optimizer]
type = "adamw"
learning_rate = 0.05
[precision]
compute = "f64"
[model]
layers = [{type = "test.io_linear", name = "first", out = 10}, {type = "tanh"},
          {type = "test.io_linear", name = "second", out = 4}]
[[model.adapters]]
match = ["*.weight"]
)";

Body steps_and_merge() {
  return [](uint32_t rank, plait::Session& session, Outcome& o) {
    train(6)(rank, session, o);
    o.norms = {loss_of_evaluation(session)};
    plait::merge(session);
    CHECK(weights_of(session).at("model.first.weight") != o.weights.at("model.first.weight"));
    o.norms.push_back(loss_of_evaluation(session));
    plait::unmerge(session);
    CHECK(weights_of(session) == o.weights);
    o.norms.push_back(loss_of_evaluation(session));
  };
}

}  // namespace

TEST_SUITE("adapters") {
  TEST_CASE("methods on weights (I,O) merge into what they compute") {
    for (const std::string method :
         {"type = \"lora\"\nrank = 3",
          "type = \"adalora\"\ninit_rank = 3\ntarget_rank = 2\ntfinal = 30",
          "type = \"dora\"\nrank = 2", "type = \"pissa\"\nrank = 2", "type = \"vera\"\nrank = 4",
          "type = \"ia3\"", "type = \"ia3\"\non = \"input\""}) {
      CAPTURE(method);
      JobSpec job_spec{kModel + method + "\n", {}, {}, {}};
      job_spec.plugins = {IO_LINEAR};
      const Outcome alone = run(job_spec, 1, steps_and_merge())[0];
      REQUIRE_MESSAGE(alone.code == PLAIT_OK, alone.error);
      CHECK(alone.norms[1] == doctest::Approx(alone.norms[0]).epsilon(1e-12));
      CHECK(alone.norms[2] == alone.norms[0]);
      Layout two;
      two.data = 2;
      for (const Outcome& o : run(on(job_spec, two), 2, steps_and_merge())) {
        REQUIRE_MESSAGE(o.code == PLAIT_OK, o.error);
        CHECK(o.norms[1] == doctest::Approx(alone.norms[0]).epsilon(1e-11));
      }
    }
  }
}
