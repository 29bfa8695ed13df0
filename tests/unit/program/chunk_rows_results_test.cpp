// Chunks of rows of one element, results of a region that were views, and ops without a rule.
#include "engine/program/chunk_rows.hpp"

#include <algorithm>

#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

TEST_CASE_FIXTURE(TextFixture, "rows of one element are as many as there are elements") {
  read(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (1, 4) at 1:0 grad = persistent "w"
    %3 f32 (8, 1) grad = matmul(%1, %2) {transpose_b: true}
    %4 f32 () grad = reduce(%3) {axes: [0, 1], keep: false}
  )");
  CHECK(chunk_rows(g, {16, 4}, {4}) == 1);
  CHECK_FALSE(find_fault(g));
  expect(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (1, 4) at 1:0 grad = persistent "w"
    %5 f32 (4, 4) = slice(%1) {stop: 4}
    %6 f32 (4, 1) grad = matmul(%5, %2) {transpose_b: true}
    %7 f32 () grad = reduce(%6) {axes: [0, 1], keep: false}
    %8 f32 (4, 4) = slice(%1) {start: 4, stop: 8}
    %9 f32 (4, 1) grad = matmul(%8, %2) {transpose_b: true}
    %10 f32 () grad = reduce(%9) {axes: [0, 1], keep: false}
    %4 f32 () grad = map(%7, %10) [x0 + x1]
  )");
}

TEST_CASE_FIXTURE(TextFixture, "a result that was a view of another one has memory of its own") {
  const std::string inputs = R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (6, 4) at 1:0 grad = persistent "w"
  )";
  read(inputs + R"(
    %3 f32 (8, 6) grad = matmul(%1, %2) {transpose_b: true}
    %4 f32 (8) grad = reduce(%3) {axes: [1], keep: false}
    %5 f32 (8, 1) grad = reshape(%4) {shape: [8, 1]}
    %6 f32 (8, 6) grad = map(%3, %5) [x0 - x1]
    %7 f32 (8) at 3:0 grad = reduce(%6) {kind: "sum_squares", axes: [1], keep: false}
    %8 f32 (8, 1) at 3:64 grad = map(%5) [exp(x0)]
  )");
  CHECK(chunk_rows(g, {96, 2}, {7, 8}) == 1);
  CHECK_FALSE(find_fault(g));
  CHECK(g.storage_of(5) == 5);
  expect(inputs + R"(
    %9 f32 (4, 4) = slice(%1) {stop: 4}
    %10 f32 (4, 6) grad = matmul(%9, %2) {transpose_b: true}
    %11 f32 (4) grad = reduce(%10) {axes: [1], keep: false}
    %12 f32 (4, 1) grad = reshape(%11) {shape: [4, 1]}
    %13 f32 (4, 6) grad = map(%10, %12) [x0 - x1]
    %14 f32 (4) grad = reduce(%13) {kind: "sum_squares", axes: [1], keep: false}
    %15 f32 (4, 4) = slice(%1) {start: 4, stop: 8}
    %16 f32 (4, 6) grad = matmul(%15, %2) {transpose_b: true}
    %17 f32 (4) grad = reduce(%16) {axes: [1], keep: false}
    %18 f32 (4, 1) grad = reshape(%17) {shape: [4, 1]}
    %19 f32 (4, 6) grad = map(%16, %18) [x0 - x1]
    %20 f32 (4) grad = reduce(%19) {kind: "sum_squares", axes: [1], keep: false}
    %5 f32 (8, 1) grad = concat(%12, %18)
    %7 f32 (8) at 3:0 grad = concat(%14, %20)
    %8 f32 (8, 1) at 3:64 grad = map(%5) [exp(x0)]
  )");
}

TEST_CASE_FIXTURE(TextFixture, "no chunks where an op has no rule that says how it lies in them") {
  const std::string lines = R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (6, 4) at 1:0 grad = persistent "w"
    %3 f32 (8, 6) grad = matmul(%1, %2) {transpose_b: true}
    %4 u8 (8, 6) grad, %5 f32 (8, 1) grad = quantize(%3)
  )";
  read(lines);
  CHECK(chunk_rows(g, {96, 2}, {4, 5}) == 0);
  expect(lines);
}
