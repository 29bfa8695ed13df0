// What eliminate_dead_ops() drops, and what it must not.
#include "engine/program/passes.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

TEST_CASE_FIXTURE(TextFixture, "a message is received, and waited for, though nobody reads it") {
  read(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) = collective_start() {kind: 8, ranks: 2, id: 0, ordered: true, shape: [4]} @stages
    %3 f32 (4) in %2 = collective_done(%2) {id: 0} @stages
    %4 f32 (4) = map(%1, %3) [x0 + x1] @a
    %5 f32 (4) = map(%1) [exp(x0)] @a
  )");
  eliminate_dead_ops(g);
  REQUIRE(g.ops().size() == 2);
  CHECK(g.ops()[0].def->collective == CollectiveOp::kStart);
  CHECK(g.ops()[1].def->collective == CollectiveOp::kDone);
}
