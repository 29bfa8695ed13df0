// What a chain of sums of products is not added to.
#include "engine/program/op_def.hpp"
#include "engine/program/passes.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  // Adds %6 + %7, the products of these lines, to `target`. where: the place of the sum, such as
  // " at 3:0".
  void folds(const std::string& products, const std::string& target, const std::string& after,
             const std::string& where = "") {
    fold(products + R"(
      %8 f32 (4, 2))" +
             where + R"( = map(%6, %7) [x0 + x1]
      %9 f32 (4, 2) = map()" +
             target + R"(, %8) [x0 + x1]
      %10 f32 (4, 2) in )" +
             target + R"( = map(%9) [copy(x0)]
    )",
         after);
  }
  void stays(const std::string& lines) { fold(lines, lines); }

 private:
  void fold(const std::string& lines, const std::string& after) {
    const std::string operands = R"(
      %1 f32 (8, 4) at 0:0 = persistent "x"
      %2 f32 (4, 2) at 1:0 = persistent "w"
      %3 f32 (2) at 1:32 = persistent "b"
      %4 f32 (4, 2) at 2:0 = persistent "sum"
      %5 f32 (8, 2) at 0:128 = persistent "d"
    )";
    read(operands + lines);
    fold_matmul(g, [](const Graph&, const Op&) { return true; });
    expect(operands + after);
    CHECK_FALSE(find_fault(g));
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a target that is made behind the first product") {
  folds(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @a
    %11 f32 (4, 2) in %4 = map(%2) [copy(x0)]
    %7 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @b
  )",
        "%11", R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @a
    %11 f32 (4, 2) in %4 = map(%2) [copy(x0)]
    %8 f32 (4, 2) in %6 = matmul(%1, %5, %6) {transpose_a: true, accumulate: true} in_place [2] @b
    %9 f32 (4, 2) = map(%11, %8) [x0 + x1]
    %10 f32 (4, 2) in %11 = map(%9) [copy(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "a first product that has a bias") {
  folds(R"(
    %6 f32 (4, 2) = matmul(%1, %5, %3) {transpose_a: true, bias: true} @a
    %7 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @b
  )",
        "%4", R"(
    %6 f32 (4, 2) = matmul(%1, %5, %3) {transpose_a: true, bias: true} @a
    %8 f32 (4, 2) in %6 = matmul(%1, %5, %6) {transpose_a: true, accumulate: true} in_place [2] @b
    %9 f32 (4, 2) = map(%4, %8) [x0 + x1]
    %10 f32 (4, 2) in %4 = map(%9) [copy(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "a chain whose sum is kept") {
  folds(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @a
    %7 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @b
  )",
        "%4", R"(
    %6 f32 (4, 2) at 3:0 = matmul(%1, %5) {transpose_a: true} @a
    %8 f32 (4, 2) in %6 = matmul(%1, %5, %6) {transpose_a: true, accumulate: true} in_place [2] @b
    %9 f32 (4, 2) = map(%4, %8) [x0 + x1]
    %10 f32 (4, 2) in %4 = map(%9) [copy(x0)]
  )",
        " at 3:0");
}

TEST_CASE_FIXTURE(Fixture, "a chain of which another op reads a part, or that no product begins") {
  stays(R"(
    %6 f32 (4, 2) = matmul(%1, %5) {transpose_a: true} @a
    %7 f32 (4, 2) in %6 = matmul(%1, %5, %6) {transpose_a: true, accumulate: true} in_place [2] @b
    %8 f32 (4, 2) = map(%4, %7) [x0 + x1]
    %9 f32 (4, 2) in %4 = map(%8) [copy(x0)]
    %10 f32 (4, 2) at 3:0 = map(%7) [-x0]
  )");
  stays(R"(
    %6 f32 (4, 2) = map(%2) [-x0]
    %7 f32 (4, 2) in %6 = matmul(%1, %5, %6) {transpose_a: true, accumulate: true} in_place [2] @b
    %8 f32 (4, 2) = map(%4, %7) [x0 + x1]
    %9 f32 (4, 2) in %4 = map(%8) [copy(x0)]
  )");
}
