// Rows of experts on one of two ranks that have the matrices of some of them: gradients, and maps
// that read other values, too.
#include "tests/unit/program/shard_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

using Fixture = ShardFixture;

constexpr const char* kInputs = R"(
  %1 i32 (4) at 0:256 = persistent "offsets"
  %2 f32 (8, 6) at 0:0 = persistent "rows"
  %3 i32 (4, 2) at 0:384 = persistent "place"
  %4 f32 (3, 6, 6) at 1:0 = persistent "w"
  %5 f32 (8, 6) at 0:512 = persistent "d"
  %6 f32 (4, 2) at 0:768 = persistent "weights"
  %7 f32 (4, 6) at 0:1024 = persistent "dy"
  %8 f32 (2, 8, 6) at 0:2048 = persistent "both"
  %9 f32 (8, 6) = grouped_matmul(%2, %4, %1) @m
)";
// The same on rank 1.
const std::string kOwn = R"(
  %1 i32 (4) at 0:256 = persistent "offsets"
  %2 f32 (8, 6) at 0:0 = persistent "rows"
  %3 i32 (4, 2) at 0:384 = persistent "place"
  %4 f32 (2, 6, 6) at 1:0 = persistent "w"
  %5 f32 (8, 6) at 0:512 = persistent "d"
  %6 f32 (4, 2) at 0:768 = persistent "weights"
  %7 f32 (4, 6) at 0:1024 = persistent "dy"
  %8 f32 (2, 8, 6) at 0:2048 = persistent "both"
  %9 f32 (8, 6) = grouped_matmul(%2, %4, %1) {first: 2} @m
)";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a gradient of matrices, of rows that are the first operand") {
  shards(std::string(kInputs) + R"(
    %10 f32 (3, 6, 6) = grouped_matmul_grad(%9, %5, %1) @m
  )",
         {{4, 0}}, 10, kOwn + R"(
    %10 f32 (2, 6, 6) = grouped_matmul_grad(%9, %5, %1) {first: 2, groups: 2} @m
    %11 f32 (4, 6, 6) = collective_start(%10) {kind: 4, ranks: 2, id: 0} @m
    %12 f32 (4, 6, 6) in %11 = collective_done(%11, %10) {id: 0} @m
    %13 f32 (3, 6, 6) = slice(%12) {stop: 3} @m
  )");
}

TEST_CASE_FIXTURE(Fixture, "gradients of weights come from the rank's own rows, and add up") {
  shards(std::string(kInputs) + R"(
    %10 f32 (8, 6), %11 f32 (4, 2) = ungroup_rows_grad(%7, %9, %6, %3) @m
  )",
         {{4, 0}}, 11, kOwn + R"(
    %10 f32 (8, 6), %11 f32 (4, 2) = ungroup_rows_grad(%7, %9, %6, %3) @m
    %12 f32 (4, 2) in %11 = collective_start(%11) {kind: 2, ranks: 2, id: 0} @m
    %13 f32 (4, 2) in %12 = collective_done(%12) {id: 0} @m
  )");
}

TEST_CASE_FIXTURE(Fixture, "a map spreads rows over another axis: it reads those of all ranks") {
  shards(std::string(kInputs) + R"(
    %10 f32 (2, 8, 6) = map(%9, %8) [x0 * x1] @n
  )",
         {{4, 0}}, 10, kOwn + R"(
    %10 f32 (8, 6) in %9 = collective_start(%9) {kind: 2, ranks: 2, id: 0} @m
    %11 f32 (8, 6) in %10 = collective_done(%10) {id: 0} @m
    %12 f32 (2, 8, 6) = map(%11, %8) [x0 * x1] @n
  )");
}

TEST_CASE_FIXTURE(Fixture, "zeros that an earlier map has not kept are made before rows add up") {
  shards(std::string(kInputs) + R"(
    %10 f32 (8, 6) = map(%9) [exp(x0)] @m
    %11 f32 (8, 6) = map(%10) [-x0] @m
    %12 f32 (4, 6) = ungroup_rows(%11, %3) @m
  )",
         {{4, 0}}, 12, kOwn + R"(
    %10 f32 (8, 6) = map(%9) [exp(x0)] @m
    %11 f32 (8, 6) = map(%10) [-x0] @m
    %12 f32 (8, 1) = map() [1.0] @m
    %13 f32 (2, 1, 1) = map() [1.0] @m
    %14 f32 (8, 1) = grouped_matmul(%12, %13, %1) {first: 2} @m
    %15 f32 () = map() [0.0] @m
    %16 f32 (8, 6) = map(%14, %11, %15) [select(x0, x1, x2)] @m
    %17 f32 (4, 6) = ungroup_rows(%16, %3) @m
    %18 f32 (4, 6) in %17 = collective_start(%17) {kind: 2, ranks: 2, id: 0} @m
    %19 f32 (4, 6) in %18 = collective_done(%18) {id: 0} @m
  )");
}

TEST_CASE_FIXTURE(Fixture, "16-bit rows that a map has read are summed as a copy of f32") {
  shards(R"(
    %1 i32 (4) at 0:256 = persistent "offsets"
    %2 bf16 (8, 6) at 0:0 = persistent "rows"
    %4 bf16 (3, 6, 6) at 1:0 = persistent "w"
    %9 bf16 (8, 6) = grouped_matmul(%2, %4, %1) @m
    %10 bf16 (8, 6) = map(%9) [tanh(x0)] @m
    %11 bf16 (8, 6) = softmax(%9) @n
    %12 bf16 (8, 6) = map(%10, %11) [x0 + x1] @n
  )",
         {{4, 0}}, 12, R"(
    %1 i32 (4) at 0:256 = persistent "offsets"
    %2 bf16 (8, 6) at 0:0 = persistent "rows"
    %4 bf16 (2, 6, 6) at 1:0 = persistent "w"
    %9 bf16 (8, 6) = grouped_matmul(%2, %4, %1) {first: 2} @m
    %10 bf16 (8, 6) = map(%9) [tanh(x0)] @m
    %11 f32 (8, 6) = map(%9) [copy(x0)] @m
    %12 f32 (8, 6) in %11 = collective_start(%11) {kind: 2, ranks: 2, id: 0} @m
    %13 f32 (8, 6) in %12 = collective_done(%12) {id: 0} @m
    %14 bf16 (8, 6) = map(%13) [copy(x0)] @m
    %15 bf16 (8, 6) = softmax(%14) @n
    %16 bf16 (8, 6) = map(%10, %15) [x0 + x1] @n
    %17 bf16 (8, 1) = map() [1.0] @n
    %18 bf16 (2, 1, 1) = map() [1.0] @n
    %19 bf16 (8, 1) = grouped_matmul(%17, %18, %1) {first: 2} @n
    %20 bf16 () = map() [0.0] @n
    %21 f32 (8, 6) = map(%19, %16, %20) [select(x0, x1, x2)] @n
    %22 f32 (8, 6) in %21 = collective_start(%21) {kind: 2, ranks: 2, id: 1} @n
    %23 f32 (8, 6) in %22 = collective_done(%22) {id: 1} @n
    %24 bf16 (8, 6) = map(%23) [copy(x0)] @n
  )");
}
