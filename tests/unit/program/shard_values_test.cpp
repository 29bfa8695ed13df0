// Where a value is brought into another form, and of what a rank makes its part.
#include "tests/unit/program/shard_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

using Fixture = ShardFixture;

}  // namespace

// -max(a, b) is not max(-a, -b).
TEST_CASE_FIXTURE(Fixture, "a map of the greatest of all ranks, not of each rank's") {
  shards(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 6) at 1:0 = persistent "w"
    %3 f32 (8, 6) = matmul(%1, %2) @a
    %4 f32 (8) = reduce(%3) {kind: "max", axes: [1], keep: false} @b
    %5 f32 (8) = map(%4) [-x0] @c
  )",
         {{2, 1}}, 5, R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 3) at 1:0 = persistent "w"
    %3 f32 (8, 3) = matmul(%1, %2) @a
    %4 f32 (8) = reduce(%3) {kind: "max", axes: [1], keep: false} @b
    %5 f32 (8) in %4 = collective_start(%4) {kind: 2, ranks: 2, id: 0} @b
    %6 f32 (8) in %5 = collective_done(%5) {id: 0} @b
    %7 f32 (8) = map(%6) [-x0] @c
  )");
}

TEST_CASE_FIXTURE(Fixture, "a table whose rows the ranks do not divide: the last one has fewer") {
  shards(R"(
    %1 f32 (5, 4) at 0:0 = persistent "table"
    %2 i32 (3) at 1:0 = persistent "ids"
    %3 f32 (3, 4) = gather(%1, %2) @embed
  )",
         {{1, 0}}, 3, R"(
    %1 f32 (3, 4) at 0:0 = persistent "table"
    %2 i32 (3) at 1:0 = persistent "ids"
    %3 f32 (3, 4) = gather(%1, %2) {first: 3, total: 5} @embed
    %4 f32 (3, 4) in %3 = collective_start(%3) {kind: 2, ranks: 2, id: 0} @embed
    %5 f32 (3, 4) in %4 = collective_done(%4) {id: 0} @embed
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "a requested value is gathered at the place of its op, the first one, too") {
  shards(R"(
    %1 f32 (6, 4) at 0:0 = persistent "x"
    %2 f32 (6, 4) = map(%1) [exp(x0)] @a stage 1
    %3 f32 (6, 4) = map(%2) [-x0] @b stage 2
  )",
         {{1, 0}}, 2, R"(
    %1 f32 (3, 4) at 0:0 = persistent "x"
    %2 f32 (3, 4) = map(%1) [exp(x0)] @a stage 1
    %4 f32 (6, 4) = collective_start(%2) {kind: 4, ranks: 2, id: 0} @a stage 1
    %5 f32 (6, 4) in %4 = collective_done(%4, %2) {id: 0} @a stage 1
  )");
}

TEST_CASE_FIXTURE(Fixture, "what depends on whole values is cut, numbers are made in part, once") {
  wanted_form = shard_along(0);
  for (const std::string last : {"map(%3) [exp(x0)]", "reshape(%3) {shape: [4, 3]}"})
    shards(R"(
    %1 f32 (4, 3) at 0:0 = persistent "x"
    %3 f32 (4, 3) = softmax(%1) @m
    %4 f32 (4, 3) = )" +
               last + " @m",
           {}, 4,
           R"(
    %1 f32 (4, 3) at 0:0 = persistent "x"
    %3 f32 (4, 3) = softmax(%1) @m
    %4 f32 (4, 3) = )" +
               last + R"( @m
    %5 f32 (2, 3) = slice(%4) {start: 2, stop: 4} @m
  )");
  shards(R"(
    %1 f32 (4, 3) at 0:0 = persistent "x"
    %2 f32 (4, 3) = map() [0.5] @m
    %3 f32 (4, 3) = map(%1, %2) [x0 + x1] @m
    %4 f32 (4, 3) = map(%3, %2) [x0 * x1] @m
  )",
         {{1, 0}}, 4, R"(
    %1 f32 (2, 3) at 0:0 = persistent "x"
    %3 f32 (2, 3) = map() [0.5] @m
    %4 f32 (2, 3) = map(%1, %3) [x0 + x1] @m
    %5 f32 (2, 3) = map(%4, %3) [x0 * x1] @m
  )");
}

TEST_CASE_FIXTURE(Fixture, "a bias of a product of 8-bit floats is added once, to the sum") {
  shards(R"(
    %1 f32 (8, 6) at 0:0 = persistent "x"
    %2 f8e4m3 (4, 6) at 1:0 = persistent "w"
    %3 f32 () at 1:64 = persistent "scale"
    %4 f32 (4) at 1:128 = persistent "bias"
    %5 f8e4m3 (8, 6) at 0:512 = persistent "q"
    %6 f32 (8, 4) = matmul_f8(%5, %2, %3, %3, %4) {bias: true} @fc
  )",
         {{2, 1}, {5, 1}}, 6, R"(
    %1 f32 (8, 6) at 0:0 = persistent "x"
    %2 f8e4m3 (4, 3) at 1:0 = persistent "w"
    %3 f32 () at 1:64 = persistent "scale"
    %4 f32 (4) at 1:128 = persistent "bias"
    %5 f8e4m3 (8, 3) at 0:512 = persistent "q"
    %6 f32 (8, 4) = matmul_f8(%5, %2, %3, %3) @fc
    %7 f32 (8, 4) in %6 = collective_start(%6) {kind: 2, ranks: 2, id: 0} @fc
    %8 f32 (8, 4) in %7 = collective_done(%7) {id: 0} @fc
    %9 f32 (8, 4) = map(%8, %4) [x0 + x1] @fc
  )");
}

TEST_CASE_FIXTURE(Fixture, "a gradient of logits in shards of classes stays in them") {
  wanted_form = shard_along(1);
  shards(R"(
    %1 f32 (4, 6) at 0:0 = persistent "logits"
    %2 i32 (4) at 0:128 = persistent "label"
    %3 f32 (4) at 0:192 = persistent "lse"
    %4 f32 (4) at 0:256 = persistent "d"
    %5 f32 (4, 6) = cross_entropy_grad(%1, %2, %3, %4) @loss
  )",
         {{1, 1}}, 5, R"(
    %1 f32 (4, 3) at 0:0 = persistent "logits"
    %2 i32 (4) at 0:128 = persistent "label"
    %3 f32 (4) at 0:192 = persistent "lse"
    %4 f32 (4) at 0:256 = persistent "d"
    %5 f32 (4, 3) = cross_entropy_grad(%1, %2, %3, %4) {first: 3, total: 6} @loss
  )");
}
