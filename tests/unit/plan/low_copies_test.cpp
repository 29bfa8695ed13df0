// Reads of copies in place of casts of parameters.
#include "engine/plan/low_copies.hpp"

#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::plan;

namespace {

struct Fixture : program::TextFixture {
  // Lets value 1 be a parameter with a copy at 7:128.
  void rewrite() {
    PlanDraft plan;
    plan.precision.low = PLAIT_BF16;
    Parameter p;
    p.name = "w";
    p.low = {7, 128};
    TracedStep step;
    step.graph = std::make_unique<program::Graph>(g);
    step.parameter_uses = {{&p, 0, 1, 0}};
    read_low_copies(plan, step);
    CHECK_FALSE(program::find_fault(*step.graph));
    g = *step.graph;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "what reads a cast of a parameter reads its copy") {
  read(R"(
    %1 f32 (4, 6) at 0:0 = persistent "w"
    %2 bf16 (4, 6) = map(%1) [copy(x0)]
    %3 f32 (4, 6) at 1:0 = map(%2) [-x0]
  )");
  rewrite();
  expect(R"(
    %1 f32 (4, 6) at 0:0 = persistent "w"
    %4 bf16 (4, 6) at 7:128 = persistent "w, low"
    %2 bf16 (4, 6) = map(%1) [copy(x0)]
    %3 f32 (4, 6) at 1:0 = map(%4) [-x0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "a part of a parameter that is only cast is a part of the copy") {
  read(R"(
    %1 f32 (4, 6) at 0:0 = persistent "w"
    %2 f32 (2, 6) = slice(%1) {stop: 2}
    %3 bf16 (2, 6) = map(%2) [copy(x0)]
    %4 f32 (2, 6) at 1:0 = map(%3) [-x0]
  )");
  rewrite();
  expect(R"(
    %1 f32 (4, 6) at 0:0 = persistent "w"
    %5 bf16 (4, 6) at 7:128 = persistent "w, low"
    %2 bf16 (2, 6) = slice(%5) {stop: 2}
    %3 bf16 (2, 6) = map(%2) [copy(x0)]
    %4 f32 (2, 6) at 1:0 = map(%2) [-x0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "a part that is read as f32, too, and what is computed stay") {
  for (const char* program : {R"(
    %1 f32 (4, 6) at 0:0 = persistent "w"
    %2 f32 (2, 6) = slice(%1) {stop: 2}
    %3 bf16 (2, 6) = map(%2) [copy(x0)]
    %4 f32 (2, 6) at 1:0 = map(%3, %2) [x0 + x1]
  )",
                              R"(
    %1 f32 (4, 6) at 0:0 = persistent "w"
    %2 f32 (4, 6) = map(%1) [exp(x0)]
    %3 bf16 (4, 6) = map(%2) [copy(x0)]
    %4 f32 (4, 6) at 1:0 = map(%3) [-x0]
  )"}) {
    read(program);
    rewrite();
    expect(program);
  }
}
