// What becomes of small programs on one of two tensor ranks.
#include "tests/unit/program/shard_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

using Fixture = ShardFixture;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "columns, then rows: one sum, and the bias behind it") {
  shards(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 6) at 1:0 = persistent "columns"
    %3 f32 (6, 2) at 1:64 = persistent "rows"
    %4 f32 (2) at 1:128 = persistent "b"
    %5 f32 (8, 6) = matmul(%1, %2) @a
    %6 f32 (8, 6) = map(%5) [max(x0, 0.0)] @a
    %7 f32 (8, 2) = matmul(%6, %3, %4) {bias: true} @b
  )",
         {{2, 1}, {3, 0}}, 7, R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 3) at 1:0 = persistent "columns"
    %3 f32 (3, 2) at 1:64 = persistent "rows"
    %4 f32 (2) at 1:128 = persistent "b"
    %5 f32 (8, 3) = matmul(%1, %2) @a
    %6 f32 (8, 3) = map(%5) [max(x0, 0.0)] @a
    %7 f32 (8, 2) = matmul(%6, %3) @b
    %8 f32 (8, 2) in %7 = collective_start(%7) {kind: 2, ranks: 2, id: 0} @b
    %9 f32 (8, 2) in %8 = collective_done(%8) {id: 0} @b
    %10 f32 (8, 2) = map(%9, %4) [x0 + x1] @b
  )");
  CHECK(collectives == std::vector<std::string>{"b summed"});
}

TEST_CASE_FIXTURE(Fixture,
                  "a sum of 16 bits: terms, sum and bias are f32, and it is rounded once") {
  shards(R"(
    %1 bf16 (8, 6) at 0:0 = persistent "x"
    %2 bf16 (6, 2) at 1:64 = persistent "rows"
    %3 f32 (2) at 1:128 = persistent "b"
    %4 bf16 (8, 2) = matmul(%1, %2, %3) {bias: true} @b
  )",
         {{1, 1}, {2, 0}}, 4, R"(
    %1 bf16 (8, 3) at 0:0 = persistent "x"
    %2 bf16 (3, 2) at 1:64 = persistent "rows"
    %3 f32 (2) at 1:128 = persistent "b"
    %4 f32 (8, 2) = matmul(%1, %2) {dtype: 1} @b
    %5 f32 (8, 2) in %4 = collective_start(%4) {kind: 2, ranks: 2, id: 0} @b
    %6 f32 (8, 2) in %5 = collective_done(%5) {id: 0} @b
    %8 f32 (8, 2) = map(%6, %3) [x0 + x1] @b
    %9 bf16 (8, 2) = map(%8) [copy(x0)] @b
  )");
}

TEST_CASE_FIXTURE(Fixture, "a sum of 16 bits in shards of rows") {
  shards(R"(
    %1 bf16 (8, 6) at 0:0 = persistent "x"
    %2 bf16 (6, 2) at 1:64 = persistent "rows"
    %3 bf16 (8, 2) = matmul(%1, %2) @b
    %4 bf16 (8, 2) = map(%3) [tanh(x0)] @b
  )",
         {{1, 1}, {2, 0}}, 4, R"(
    %1 bf16 (8, 3) at 0:0 = persistent "x"
    %2 bf16 (3, 2) at 1:64 = persistent "rows"
    %3 f32 (8, 2) = matmul(%1, %2) {dtype: 1} @b
    %4 f32 (4, 2) = collective_start(%3) {kind: 3, ranks: 2, id: 0} @b
    %5 f32 (4, 2) in %4 = collective_done(%4, %3) {id: 0} @b
    %6 bf16 (4, 2) = map(%5) [copy(x0)] @b
    %7 bf16 (4, 2) = map(%6) [tanh(x0)] @b
    %8 bf16 (8, 2) = collective_start(%7) {kind: 4, ranks: 2, id: 1} @b
    %9 bf16 (8, 2) in %8 = collective_done(%8, %7) {id: 1} @b
  )",
         true);
}

TEST_CASE_FIXTURE(Fixture, "without a shard nothing changes") {
  const char* lines = R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 6) at 1:0 = persistent "w"
    %3 f32 (8, 6) = matmul(%1, %2) @a
  )";
  shards(lines, {}, 3, lines);
  CHECK(collectives.empty());
}

TEST_CASE_FIXTURE(Fixture, "an op without a rule gets the whole value") {
  shards(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 6) at 1:0 = persistent "w"
    %3 f32 (8, 6) = matmul(%1, %2) @a
    %4 f32 (8, 6) = softmax(%3) @b
  )",
         {{2, 1}}, 4,
         R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 3) at 1:0 = persistent "w"
    %3 f32 (8, 3) = matmul(%1, %2) @a
    )" + gathered_columns(3, 3, "b") +
             R"(
    %9 f32 (8, 6) = softmax(%8) @b
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "padding stays where zeros stay zeros, and is cut off where it does not") {
  shards(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 5) at 1:0 = persistent "w"
    %3 f32 (8, 5) = matmul(%1, %2) @a
    %4 f32 (8, 5) = map(%3) [relu(x0)] @b
    %5 f32 (8, 5) = map(%4) [exp(x0)] @c
  )",
         {{2, 1}}, 5,
         R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 3) at 1:0 = persistent "w"
    %3 f32 (8, 3) = matmul(%1, %2) @a
    %4 f32 (8, 3) = map(%3) [relu(x0)] @b
    )" + gathered_columns(4, 3, "c") +
             R"(
    %10 f32 (8, 5) = slice(%9) {axis: 1, stop: 5} @c
    %11 f32 (8, 5) = map(%10) [exp(x0)] @c
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "sequence parallelism: the rows of one rank from the sum to the next product") {
  shards(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 6) at 1:0 = persistent "rows"
    %3 f32 (6, 2) at 1:64 = persistent "columns"
    %4 f32 (8, 6) = matmul(%1, %2) @a
    %5 f32 (8, 6) = map(%4) [tanh(x0)] @b
    %6 f32 (8, 2) = matmul(%5, %3) @c
  )",
         {{2, 0}, {3, 1}}, 6,
         R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (2, 6) at 1:0 = persistent "rows"
    %3 f32 (6, 1) at 1:64 = persistent "columns"
    %4 f32 (8, 2) = slice(%1) {axis: 1, start: 2, stop: 4} @a
    %5 f32 (8, 6) = matmul(%4, %2) @a
    %6 f32 (4, 6) = collective_start(%5) {kind: 3, ranks: 2, id: 0} @a
    %7 f32 (4, 6) in %6 = collective_done(%6, %5) {id: 0} @a
    %8 f32 (4, 6) = map(%7) [tanh(x0)] @b
    %9 f32 (8, 6) = collective_start(%8) {kind: 4, ranks: 2, id: 1} @c
    %10 f32 (8, 6) in %9 = collective_done(%9, %8) {id: 1} @c
    %11 f32 (8, 1) = matmul(%10, %3) @c
    )" + gathered_columns(11, 1, "c", 2) +
             R"(
  )",
         true);
  CHECK(collectives == std::vector<std::string>{"a summed, in shards", "c gathered", "c gathered"});
}

TEST_CASE_FIXTURE(Fixture, "experts: each rank computes the rows of its own, and one sum follows") {
  shards(R"(
    %1 f32 (4, 6) at 0:0 = persistent "x"
    %2 i32 (4, 2) at 0:128 = persistent "index"
    %3 f32 (4, 2) at 0:256 = persistent "weights"
    %4 f32 (3, 5, 6) at 1:0 = persistent "up"
    %5 f32 (3, 6, 5) at 1:512 = persistent "down"
    %6 f32 (8, 6), %7 i32 (4, 2), %8 i32 (4) = group_rows(%1, %2) {groups: 3} @m
    %9 f32 (8, 5) = grouped_matmul(%6, %4, %8) {transpose_b: true} @m
    %10 f32 (8, 5) = map(%9) [x0 * sigmoid(x0)] @m
    %11 f32 (8, 6) = grouped_matmul(%10, %5, %8) {transpose_b: true} @m
    %12 f32 (4, 6) = ungroup_rows(%11, %3, %7) @m
  )",
         {{4, 0}, {5, 0}}, 12, R"(
    %1 f32 (4, 6) at 0:0 = persistent "x"
    %2 i32 (4, 2) at 0:128 = persistent "index"
    %3 f32 (4, 2) at 0:256 = persistent "weights"
    %4 f32 (2, 5, 6) at 1:0 = persistent "up"
    %5 f32 (2, 6, 5) at 1:512 = persistent "down"
    %6 f32 (8, 6), %7 i32 (4, 2), %8 i32 (4) = group_rows(%1, %2) {groups: 3} @m
    %9 f32 (8, 5) = grouped_matmul(%6, %4, %8) {transpose_b: true, first: 2} @m
    %10 f32 (8, 5) = map(%9) [x0 * sigmoid(x0)] @m
    %11 f32 (8, 6) = grouped_matmul(%10, %5, %8) {transpose_b: true, first: 2} @m
    %12 f32 (4, 6) = ungroup_rows(%11, %3, %7) @m
    %13 f32 (4, 6) in %12 = collective_start(%12) {kind: 2, ranks: 2, id: 0} @m
    %14 f32 (4, 6) in %13 = collective_done(%13) {id: 0} @m
  )");
  CHECK(collectives == std::vector<std::string>{"m summed"});
}

TEST_CASE_FIXTURE(Fixture,
                  "rows of experts that are not 0 elsewhere become so before they add up") {
  shards(R"(
    %1 f32 (8, 6) at 0:0 = persistent "rows"
    %2 i32 (4) at 0:256 = persistent "offsets"
    %3 i32 (4, 2) at 0:384 = persistent "place"
    %4 f32 (3, 6, 6) at 1:0 = persistent "w"
    %5 f32 (8, 6) = grouped_matmul(%1, %4, %2) @m
    %6 f32 (8, 6) = map(%5) [exp(x0)] @m
    %7 f32 (4, 6) = ungroup_rows(%6, %3) @m
  )",
         {{4, 0}}, 7, R"(
    %1 f32 (8, 6) at 0:0 = persistent "rows"
    %2 i32 (4) at 0:256 = persistent "offsets"
    %3 i32 (4, 2) at 0:384 = persistent "place"
    %4 f32 (2, 6, 6) at 1:0 = persistent "w"
    %5 f32 (8, 6) = grouped_matmul(%1, %4, %2) {first: 2} @m
    %6 f32 (8, 6) = map(%5) [exp(x0)] @m
    %7 f32 (8, 1) = map() [1.0] @m
    %8 f32 (2, 1, 1) = map() [1.0] @m
    %9 f32 (8, 1) = grouped_matmul(%7, %8, %2) {first: 2} @m
    %10 f32 () = map() [0.0] @m
    %11 f32 (8, 6) = map(%9, %6, %10) [select(x0, x1, x2)] @m
    %12 f32 (4, 6) = ungroup_rows(%11, %3) @m
    %13 f32 (4, 6) in %12 = collective_start(%12) {kind: 2, ranks: 2, id: 0} @m
    %14 f32 (4, 6) in %13 = collective_done(%13) {id: 0} @m
  )");
}

TEST_CASE_FIXTURE(Fixture, "gradients of experts: of the rank's own, from rows that stay there") {
  shards(R"(
    %1 f32 (8, 6) at 0:0 = persistent "rows"
    %2 i32 (4) at 0:256 = persistent "offsets"
    %3 f32 (8, 5) at 0:512 = persistent "d"
    %4 f32 (3, 6, 5) at 1:0 = persistent "w"
    %5 f32 (8, 6) = grouped_matmul(%3, %4, %2) {transpose_b: true} @m
    %6 f32 (3, 6, 6) = grouped_matmul_grad(%1, %5, %2) @m
  )",
         {{4, 0}}, 6, R"(
    %1 f32 (8, 6) at 0:0 = persistent "rows"
    %2 i32 (4) at 0:256 = persistent "offsets"
    %3 f32 (8, 5) at 0:512 = persistent "d"
    %4 f32 (2, 6, 5) at 1:0 = persistent "w"
    %5 f32 (8, 6) = grouped_matmul(%3, %4, %2) {transpose_b: true, first: 2} @m
    %6 f32 (2, 6, 6) = grouped_matmul_grad(%1, %5, %2) {first: 2, groups: 2} @m
    %7 f32 (4, 6, 6) = collective_start(%6) {kind: 4, ranks: 2, id: 0} @m
    %8 f32 (4, 6, 6) in %7 = collective_done(%7, %6) {id: 0} @m
    %9 f32 (3, 6, 6) = slice(%8) {stop: 3} @m
  )");
}
