// What eliminate_dead_ops() drops, and what it must not.
#include "engine/program/passes.hpp"
#include "engine/program/verify.hpp"
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

TEST_CASE_FIXTURE(TextFixture, "a cache is written though nobody reads it in this program") {
  const std::string lines = R"(
    %1 f32 (2, 4, 1, 2) at 0:0 = persistent "cache"
    %2 f32 (1, 1, 1, 2) at 0:64 = persistent "x"
    %3 i32 (1) at 0:72 = persistent "slot"
    %4 i32 (1, 1) at 0:76 = persistent "at"
    %5 f32 (2, 4, 1, 2) in %1 = cache_write(%1, %2, %3, %4))";
  const auto pass = [&] {
    eliminate_dead_ops(g);
    CHECK(!find_fault(g));
  };
  expect_after(pass, lines, lines + " in_place [0]");
  // One that only this program knows is needed where its result is read.
  const std::string known = R"(
    %2 f32 (1, 1, 1, 2) at 0:64 = persistent "x"
    %3 i32 (1) at 0:72 = persistent "slot"
    %4 i32 (1, 1) at 0:76 = persistent "at"
    %1 f32 (2, 4, 1, 2) = map() [0.0]
    %5 f32 (2, 4, 1, 2) in %1 = cache_write(%1, %2, %3, %4))";
  const std::string read = known + R"( in_place [0]
    %6 f32 (2, 4, 1, 2) at 1:0 = map(%5) [-x0])";
  expect_unchanged(pass, read);
  expect_after(pass, known, R"(
    %2 f32 (1, 1, 1, 2) at 0:64 = persistent "x"
    %3 i32 (1) at 0:72 = persistent "slot"
    %4 i32 (1, 1) at 0:76 = persistent "at")");
}
