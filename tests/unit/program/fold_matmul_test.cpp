// What becomes part of a product, and what must not.
#include "engine/program/op_def.hpp"
#include "engine/program/passes.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  bool can_square = true;
  static std::string with_operands(const std::string& lines) {
    return R"(
      %1 f32 (8, 4) at 0:0 = persistent "x"
      %2 f32 (4, 2) at 1:0 = persistent "w"
      %3 f32 (2) at 1:32 = persistent "b"
      %4 f32 (4, 2) at 2:0 = persistent "sum"
      %5 f32 (8, 2) at 0:128 = persistent "d"
    )" + lines;
  }
  void folds(const std::string& lines, const std::string& after) {
    read(with_operands(lines));
    fold_matmul(g, [this](const Graph&, const Op& op) {
      return can_square || op.attrs.integer("squares", 0) == 0;
    });
    expect(with_operands(after));
    CHECK_FALSE(find_fault(g));
  }
  void stays(const std::string& lines) { folds(lines, lines); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a bias, and an activation behind it") {
  folds(R"(
    %6 f32 (8, 2) = matmul(%1, %2) @fc
    %7 f32 (8, 2) = map(%3, %6) [x0 + x1] @fc
    %8 f32 (8, 2) at 3:0 = map(%7) [tanh(x0)] @act
  )",
        R"(
    %8 f32 (8, 2) at 3:0 = matmul(%1, %2, %3) {bias: true, activation: "tanh"} @fc
  )");
  folds(R"(
    %6 f32 (8, 2) = matmul(%1, %2)
    %8 f32 (8, 2) at 3:0 = map(%6) [relu(x0)]
  )",
        R"(
    %8 f32 (8, 2) at 3:0 = matmul(%1, %2) {activation: "relu"}
  )");
}

TEST_CASE_FIXTURE(Fixture, "no bias: of another shape, or where the product is wanted itself") {
  stays(R"(
    %6 f32 (8, 2) = matmul(%1, %2)
    %7 f32 (8, 2) at 3:0 = map(%5, %6) [x0 + x1]
  )");
  stays(R"(
    %6 f32 (8, 2) = matmul(%1, %2)
    %7 f32 (8, 2) at 3:0 = map(%3, %6) [x0 - x1]
  )");
  stays(R"(
    %6 f32 (8, 2) = matmul(%1, %2)
    %7 f32 (8, 2) at 3:0 = map(%3, %6) [x0 + x1]
    %8 f32 (8, 2) at 3:64 = map(%6) [-x0]
  )");
  stays(R"(
    %6 f32 (8, 2) at 3:64 = matmul(%1, %2)
    %7 f32 (8, 2) at 3:0 = map(%3, %6) [x0 + x1]
  )");
  stays(R"(
    %6 f32 (8, 2) = matmul(%1, %2)
    %7 f64 (8, 2) at 3:0 = map(%3, %6) [x0 + x1]
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "no bias behind an activation, no second one, none of several operations") {
  stays(R"(
    %6 f32 (8, 2) = matmul(%1, %2) {activation: "relu"}
    %7 f32 (8, 2) at 3:0 = map(%3, %6) [x0 + x1]
  )");
  stays(R"(
    %6 f32 (8, 2) = matmul(%1, %2, %3) {bias: true}
    %7 f32 (8, 2) at 3:0 = map(%3, %6) [x0 + x1]
  )");
  stays(R"(
    %6 f32 (8, 2) = matmul(%1, %2)
    %7 f32 (8, 2) at 3:0 = map(%3, %6) [exp(x0 + x1)]
  )");
  stays(R"(
    %6 f32 (8, 2) = matmul(%1, %2)
    %7 f32 (8, 2) at 3:0 = map(%6) [exp(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "a sum over micro-batches: the product adds to what is there") {
  folds(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @fc
    %7 f32 (4, 2) = map(%4, %6) [x0 + x1]
    %8 f32 (4, 2) in %4 = map(%7) [copy(x0)]
  )",
        R"(
    %8 f32 (4, 2) in %4 = matmul(%1, %5, %4) {transpose_a: true, accumulate: true} in_place [2] @fc
  )");
}

TEST_CASE_FIXTURE(Fixture, "the product stays in its place, so that its operands end there") {
  folds(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @fc
    %7 f32 (4, 2) at 3:0 = map(%2) [-x0] @later
    %8 f32 (4, 2) = map(%4, %6) [x0 + x1]
    %9 f32 (4, 2) in %4 = map(%8) [copy(x0)]
  )",
        R"(
    %9 f32 (4, 2) in %4 = matmul(%1, %5, %4) {transpose_a: true, accumulate: true} in_place [2] @fc
    %7 f32 (4, 2) at 3:0 = map(%2) [-x0] @later
  )");
  stays(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @fc
    %7 f32 (4, 2) at 3:0 = map(%4) [-x0] @reads_the_sum
    %8 f32 (4, 2) = map(%4, %6) [x0 + x1]
    %9 f32 (4, 2) in %4 = map(%8) [copy(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "what is added to must be there before the product") {
  stays(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @fc
    %7 f32 (4, 2) in %4 = map(%2) [copy(x0)]
    %8 f32 (4, 2) = map(%7, %6) [x0 + x1]
    %9 f32 (4, 2) in %7 = map(%8) [copy(x0)]
    %10 f32 () at 3:0 = map() [1.0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "no sum: into other memory than is added, or where it is read again") {
  stays(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true}
    %7 f32 (4, 2) = map(%2, %6) [x0 + x1]
    %8 f32 (4, 2) in %4 = map(%7) [copy(x0)]
  )");
  stays(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true}
    %7 f32 (4, 2) = map(%4, %6) [x0 + x1]
    %8 f32 (4, 2) in %4 = map(%7) [copy(x0)]
    %9 f32 (4, 2) at 3:0 = map(%7) [-x0]
  )");
  stays(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true, activation: "relu"}
    %7 f32 (4, 2) = map(%4, %6) [x0 + x1]
    %8 f32 (4, 2) in %4 = map(%7) [copy(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "a sum of products: each adds to the memory of the one before") {
  folds(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @a
    %7 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @b
    %8 f32 (4, 2) = map(%6, %7) [x0 + x1]
    %9 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @c
    %10 f32 (4, 2) at 3:0 = map(%8, %9) [x0 + x1]
  )",
        R"(
    %6 f32 (4, 2) at 3:0 = matmul(%1, %5) {transpose_a: true} @a
    %8 f32 (4, 2) in %6 = matmul(%1, %5, %6) {transpose_a: true, accumulate: true} in_place [2] @b
    %10 f32 (4, 2) in %8 = matmul(%1, %5, %8) {transpose_a: true, accumulate: true} in_place [2] @c
  )");
}

TEST_CASE_FIXTURE(Fixture, "a sum of products over micro-batches: all add to what is there") {
  folds(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @a
    %7 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @b
    %8 f32 (4, 2) = map(%6, %7) [x0 + x1]
    %9 f32 (4, 2) = map(%4, %8) [x0 + x1]
    %10 f32 (4, 2) in %4 = map(%9) [copy(x0)]
  )",
        R"(
    %6 f32 (4, 2) in %4 = matmul(%1, %5, %4) {transpose_a: true, accumulate: true} in_place [2] @a
    %10 f32 (4, 2) in %6 = matmul(%1, %5, %6) {transpose_a: true, accumulate: true} in_place [2] @b
  )");
}

TEST_CASE_FIXTURE(Fixture, "no sum of products where a term is read again or wanted itself") {
  stays(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @a
    %7 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @b
    %8 f32 (4, 2) at 3:0 = map(%6, %7) [x0 + x1]
    %9 f32 (4, 2) at 3:32 = map(%6, %7) [x0 * x1]
  )");
  stays(R"(
    %6 f32 (4, 2) at 3:32 = matmul(%1, %5) {transpose_a: true} @a
    %7 f32 (4, 2) at 3:64 = matmul(%1, %5) {transpose_a: true} @b
    %8 f32 (4, 2) at 3:0 = map(%6, %7) [x0 + x1]
  )");
}

TEST_CASE_FIXTURE(Fixture, "the squares of a gradient, where the device takes them along") {
  const char* lines = R"(
    %6 f32 (4, 2) at 2:0 = matmul(%1, %5) {transpose_a: true} @fc
    %7 f32 () at 3:0 = reduce(%6) {kind: "sum_squares", axes: [0, 1], keep: false}
  )";
  folds(lines, R"(
    %6 f32 (4, 2) at 2:0, %7 f32 () at 3:0 = matmul(%1, %5) {transpose_a: true, squares: true} @fc
  )");
  can_square = false;
  stays(lines);
}

TEST_CASE_FIXTURE(Fixture, "no squares: of a part, of another kind, or behind something folded") {
  stays(R"(
    %6 f32 (4, 2) at 2:0 = matmul(%1, %5) {transpose_a: true}
    %7 f32 (4) at 3:0 = reduce(%6) {kind: "sum_squares", axes: [1], keep: false}
  )");
  stays(R"(
    %6 f32 (4, 2) at 2:0 = matmul(%1, %5) {transpose_a: true}
    %7 f32 () at 3:0 = reduce(%6) {axes: [0, 1], keep: false}
  )");
  stays(R"(
    %6 f32 (8, 2) at 2:0 = matmul(%1, %2, %3) {bias: true}
    %7 f32 () at 3:0 = reduce(%6) {kind: "sum_squares", axes: [0, 1], keep: false}
  )");
}

TEST_CASE_FIXTURE(Fixture, "a reader that nobody needs does not forbid a fold") {
  folds(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @fc
    %7 bf16 (4, 2) = map(%6) [copy(x0)] @fc
    %8 f32 () at 3:0 = map() [1.0]
    %9 f32 (4, 2) = map(%6, %4) [x0 + x1] @fc
    %10 f32 (4, 2) in %4 = map(%9) [copy(x0)]
  )",
        R"(
    %10 f32 (4, 2) in %4 = matmul(%1, %5, %4) {transpose_a: true, accumulate: true} in_place [2] @fc
    %8 f32 () at 3:0 = map() [1.0]
  )");
}

TEST_CASE_FIXTURE(TextFixture, "a product with quantized weights takes all but sums of squares") {
  const std::string operands = R"(
    %1 f32 (3, 40) at 0:0 = persistent "x"
    %2 u8 (6, 40) at 1:0 = persistent "q"
    %3 f32 (6, 2) at 1:240 = persistent "s"
    %4 f32 (6) at 1:288 = persistent "b"
    %5 f32 (3, 6) at 2:0 = persistent "sum"
  )";
  read(operands + R"(
    %6 f32 (3, 6) = matmul_quantized(%1, %2, %3) {columns: 40} @fc
    %7 f32 (3, 6) = map(%4, %6) [x0 + x1] @fc
    %8 f32 (3, 6) at 3:0 = map(%7) [relu(x0)] @act
    %9 f32 (3, 40) = map(%1) [-x0]
    %10 f32 (3, 6) = matmul_quantized(%9, %2, %3) {columns: 40} @head
    %11 f32 (3, 6) = map(%5, %10) [x0 + x1]
    %12 f32 (3, 6) in %5 = map(%11) [copy(x0)]
    %13 f32 (3, 6) at 3:128 = matmul_quantized(%9, %2, %3) {columns: 40} @squared
    %14 f32 () at 3:256 = reduce(%13) {kind: "sum_squares", axes: [0, 1], keep: false}
  )");
  fold_matmul(g, [](const Graph&, const Op&) { return true; });
  CHECK_FALSE(find_fault(g));
  expect(operands + R"(
    %8 f32 (3, 6) at 3:0 = matmul_quantized(%1, %2, %3, %4) )"
                    R"({bias: true, columns: 40, activation: "relu"} @fc
    %9 f32 (3, 40) = map(%1) [-x0]
    %12 f32 (3, 6) in %5 = matmul_quantized(%9, %2, %3, %5) )"
                    R"({columns: 40, accumulate: true} in_place [3] @head
    %13 f32 (3, 6) at 3:128 = matmul_quantized(%9, %2, %3) {columns: 40} @squared
    %14 f32 () at 3:256 = reduce(%13) {kind: "sum_squares", axes: [0, 1], keep: false}
  )");
}
