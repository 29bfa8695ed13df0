// The ops that the gradient rules of single ops write, on what of the forward pass, and for which
// input.
#include "engine/program/op_def.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  // The rule of the last op; d_out: gradients of its results. `gradients` by input, 0: none.
  void writes(const std::string& lines, const std::vector<ValueId>& d_out,
              const std::vector<char>& wanted, const std::vector<ValueId>& gradients,
              const std::string& appended) {
    read(lines);
    const Op op = g.ops().back();
    VjpContext use{g, op, d_out, wanted, std::vector<ValueId>(op.in.size(), 0)};
    op.def->vjp(use);
    CHECK(use.d_in == gradients);
    expect(lines + appended);
    CHECK_FALSE(find_fault(g));
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "rows of a table: the table's") {
  writes(R"(
    %1 f32 (5, 4) at 0:0 = persistent "table"
    %2 i32 (3) at 0:128 = persistent "ids"
    %3 f32 (3, 4) at 0:256 = persistent "d"
    %4 f32 (3, 4) = gather(%1, %2)
  )",
         {3}, {1, 0}, {5, 0}, R"(
    %5 f32 (5, 4) = scatter_add(%3, %2) {rows: 5}
  )");
}

TEST_CASE_FIXTURE(Fixture, "parts of a whole: what each input was of it, and no other") {
  writes(R"(
    %1 f32 (3, 2) at 0:0 = persistent "a"
    %2 f32 (3, 1) at 0:64 = persistent "b"
    %3 f32 (3, 4) at 0:128 = persistent "c"
    %4 f32 (3, 7) at 0:256 = persistent "d"
    %5 f32 (3, 7) = concat(%1, %2, %3) {axis: 1}
  )",
         {4}, {1, 0, 1}, {6, 0, 7}, R"(
    %6 f32 (3, 2) = slice(%4) {axis: 1, stop: 2}
    %7 f32 (3, 4) = slice(%4) {axis: 1, start: 3, stop: 7}
  )");
}

TEST_CASE_FIXTURE(Fixture, "norms: with the statistics of the forward pass") {
  const std::string inputs = R"(
    %1 f32 (3, 5) at 0:0 = persistent "x"
    %2 f32 (5) at 0:64 = persistent "gain"
    %3 f32 (5) at 0:128 = persistent "bias"
    %4 f32 (3, 5) at 0:192 = persistent "d"
  )";
  writes(inputs + R"(
    %5 f32 (3, 5), %6 f32 (3), %7 f32 (3) = layer_norm(%1, %2, %3) {eps: 0.5}
  )",
         {4, 0, 0}, {1, 1, 1}, {8, 9, 10}, R"(
    %8 f32 (3, 5), %9 f32 (5), %10 f32 (5) = layer_norm_grad(%1, %2, %6, %7, %4) {eps: 0.5}
  )");
  writes(inputs + R"(
    %5 f32 (3, 5), %6 f32 (3) = rms_norm(%1, %2) {eps: 0.5}
  )",
         {4, 0}, {1, 1}, {7, 8}, R"(
    %7 f32 (3, 5), %8 f32 (5) = rms_norm_grad(%1, %2, %6, %4) {eps: 0.5}
  )");
}

TEST_CASE_FIXTURE(Fixture, "a sum of squares: twice the operand") {
  writes(R"(
    %1 f32 (3, 5) at 0:0 = persistent "x"
    %2 f32 (3) at 0:64 = persistent "d"
    %3 f32 (3) = reduce(%1) {kind: "sum_squares", axes: [1], keep: false}
  )",
         {2}, {1}, {7}, R"(
    %4 f32 (3, 1) = reshape(%2) {shape: [3, 1]}
    %5 f32 () weak = map() [2.0]
    %6 f32 (3, 5) = map(%1, %5) [x0 * x1]
    %7 f32 (3, 5) = map(%6, %4) [x0 * x1]
  )");
}

TEST_CASE_FIXTURE(Fixture, "a rotation turns back") {
  writes(R"(
    %1 f32 (1, 2, 1, 4) at 0:0 = persistent "x"
    %2 f32 (2, 2) at 0:64 = persistent "cos"
    %3 f32 (2, 2) at 0:128 = persistent "sin"
    %4 f32 (1, 2, 1, 4) at 0:192 = persistent "d"
    %5 f32 (1, 2, 1, 4) = rope(%1, %2, %3) {pairs: "adjacent"}
  )",
         {4}, {1, 0, 0}, {6, 0, 0}, R"(
    %6 f32 (1, 2, 1, 4) = rope(%4, %2, %3) {pairs: "adjacent", inverse: true}
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "a product with quantized weights: its operand's, and its bias's if wanted") {
  const std::string lines = R"(
    %1 f32 (3, 40) at 0:0 = persistent "x"
    %2 u8 (6, 40) at 1:0 = persistent "q"
    %3 f32 (6, 2) at 1:240 = persistent "s"
    %4 f32 (6) at 1:288 = persistent "b"
    %5 f32 (3, 6) at 2:0 = persistent "d"
    %6 f32 (3, 6) = matmul_quantized(%1, %2, %3, %4) {bias: true, columns: 40}
  )";
  const std::string product =
      "%7 f32 (3, 40) = matmul_quantized(%5, %2, %3) {columns: 40, transpose_b: false}\n";
  writes(lines, {5}, {1, 0, 0, 0}, {7, 0, 0, 0}, product);
  writes(lines, {5}, {1, 0, 0, 1}, {7, 0, 0, 9}, product + R"(
    %8 f32 (1, 6) = reduce(%5) {axes: [0]}
    %9 f32 (6) = reshape(%8) {shape: [6]}
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "products of groups: by the turned matrices, and of rows with gradients") {
  const std::string lines = R"(
    %1 f32 (5, 3) at 0:0 = persistent "x"
    %2 f32 (3, 3, 2) at 0:64 = persistent "w"
    %3 i32 (4) at 0:192 = persistent "offsets"
    %4 f32 (5, 2) at 0:256 = persistent "d"
    %5 f32 (5, 2) = grouped_matmul(%1, %2, %3)
  )";
  writes(lines, {4}, {1, 0, 0}, {6, 0, 0},
         "%6 f32 (5, 3) = grouped_matmul(%4, %2, %3) {transpose_b: true}");
  writes(lines, {4}, {0, 1, 0}, {0, 6, 0}, "%6 f32 (3, 3, 2) = grouped_matmul_grad(%1, %4, %3)");
}
