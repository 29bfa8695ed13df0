// A norm over channels that lie in shards: two ranks communicate sums of rows alone.
#include "tests/unit/program/shard_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

using Fixture = ShardFixture;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "rms_norm: a sum of squares for each row") {
  wanted_form = shard_along(1);
  shards(R"(
    %1 bf16 (4, 6) at 0:0 = persistent "x"
    %2 f32 (6) at 1:0 = persistent "gain"
    %3 bf16 (4, 6), %4 f32 (4) = rms_norm(%1, %2) {eps: 0.5} @q
  )",
         {{1, 1}}, 3, R"(
    %1 bf16 (4, 3) at 0:0 = persistent "x"
    %2 f32 (6) at 1:0 = persistent "gain"
    %3 f32 (4, 3) = map(%1) [copy(x0)] @q
    %4 f32 (3) = slice(%2) {start: 3, stop: 6} @q
    %5 f32 () weak = map() [0.5] @q
    %6 f32 (4, 1) = reduce(%3) {kind: "sum_squares", axes: [1]} @q
    %7 f32 (4, 1) in %6 = collective_start(%6) {kind: 2, ranks: 2, id: 0} @q
    %8 f32 (4, 1) in %7 = collective_done(%7) {id: 0} @q
    %9 f32 () weak = map() [0.16666666666666666] @q
    %10 f32 (4, 1) = map(%8, %9) [x0 * x1] @q
    %11 f32 (4, 1) = map(%10, %5) [x0 + x1] @q
    %12 f32 (4, 1) = map(%11) [sqrt(x0)] @q
    %13 f32 () weak = map() [1.0] @q
    %14 f32 (4, 1) = map(%13, %12) [x0 / x1] @q
    %15 f32 (4, 3) = map(%3, %14) [x0 * x1] @q
    %16 f32 (4, 3) = map(%15, %4) [x0 * x1] @q
    %17 bf16 (4, 3) = map(%16) [copy(x0)] @q
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "its gradient: a mean for each row, and the gain's of its own channels") {
  const char* lines = R"(
    %1 bf16 (4, 6) at 0:0 = persistent "x"
    %2 f32 (6) at 1:0 = persistent "gain"
    %3 f32 (4) at 0:64 = persistent "rstd"
    %4 bf16 (4, 6) at 0:128 = persistent "dy"
    %5 bf16 (4, 6), %6 f32 (6) = rms_norm_grad(%1, %2, %3, %4) {eps: 0.5} @q
  )";
  wanted_form = shard_along(1);
  shards(lines, {{1, 1}, {4, 1}}, 5, R"(
    %1 bf16 (4, 3) at 0:0 = persistent "x"
    %2 f32 (6) at 1:0 = persistent "gain"
    %3 f32 (4) at 0:64 = persistent "rstd"
    %4 bf16 (4, 3) at 0:128 = persistent "dy"
    %5 f32 (4, 3) = map(%1) [copy(x0)] @q
    %6 f32 (3) = slice(%2) {start: 3, stop: 6} @q
    %7 f32 (4, 3) = map(%4) [copy(x0)] @q
    %8 f32 (4, 1) = reshape(%3) {shape: [4, 1]} @q
    %9 f32 (4, 3) = map(%5, %8) [x0 * x1] @q
    %10 f32 (4, 3) = map(%7, %6) [x0 * x1] @q
    %11 f32 (4, 3) = map(%10, %9) [x0 * x1] @q
    %12 f32 (4, 1) = reduce(%11) {axes: [1]} @q
    %13 f32 (4, 1) in %12 = collective_start(%12) {kind: 2, ranks: 2, id: 0} @q
    %14 f32 (4, 1) in %13 = collective_done(%13) {id: 0} @q
    %15 f32 () weak = map() [0.16666666666666666] @q
    %16 f32 (4, 1) = map(%14, %15) [x0 * x1] @q
    %17 f32 (4, 3) = map(%9, %16) [x0 * x1] @q
    %18 f32 (4, 3) = map(%10, %17) [x0 - x1] @q
    %19 f32 (4, 3) = map(%18, %8) [x0 * x1] @q
    %22 bf16 (4, 3) = map(%19) [copy(x0)] @q
  )");
  wanted_form = shard_along(0);
  shards(lines, {{1, 1}, {4, 1}}, 6, R"(
    %1 bf16 (4, 3) at 0:0 = persistent "x"
    %2 f32 (6) at 1:0 = persistent "gain"
    %3 f32 (4) at 0:64 = persistent "rstd"
    %4 bf16 (4, 3) at 0:128 = persistent "dy"
    %5 f32 (4, 3) = map(%1) [copy(x0)] @q
    %7 f32 (4, 3) = map(%4) [copy(x0)] @q
    %8 f32 (4, 1) = reshape(%3) {shape: [4, 1]} @q
    %9 f32 (4, 3) = map(%5, %8) [x0 * x1] @q
    %20 f32 (4, 3) = map(%7, %9) [x0 * x1] @q
    %21 f32 (3) = reduce(%20) {axes: [0], keep: false} @q
  )");
}
