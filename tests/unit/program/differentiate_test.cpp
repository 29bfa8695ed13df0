// What differentiation appends to small programs.
#include "engine/program/differentiate.hpp"

#include "engine/base/error.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  std::vector<ValueId> gradients;
  // Differentiates the program of these lines; compares what stands behind them.
  void check(const std::string& lines, ValueId loss, const std::vector<ValueId>& targets,
             const std::string& appended) {
    read(lines);
    gradients = differentiate(g, loss, targets);
    expect(lines + appended);
    CHECK_FALSE(find_fault(g));
  }
};

constexpr const char* kLinear = R"(
  %1 f32 (8, 4) at 0:0 = persistent "x"
  %2 f32 (4, 2) at 1:0 grad = persistent "w"
  %3 f32 (2) at 1:32 grad = persistent "b"
  %4 f32 (8, 2) grad = matmul(%1, %2) @fc
  %5 f32 (8, 2) grad = map(%4, %3) [x0 + x1] @fc
  %6 f32 () grad = reduce(%5) {axes: [0, 1], keep: false} @loss
)";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a linear layer: each gradient in the scope of its op") {
  check(kLinear, 6, {2, 3}, R"(
    %7 f32 () = map() [1.0] backward
    %8 f32 (1, 1) = reshape(%7) {shape: [1, 1]} @loss backward
    %9 f32 (8, 2) = map() [0.0] @loss backward
    %10 f32 (8, 2) = map(%9, %8) [x0 + x1] @loss backward
    %11 f32 (1, 2) = reduce(%10) {axes: [0]} @fc backward
    %12 f32 (2) = reshape(%11) {shape: [2]} @fc backward
    %13 f32 (4, 2) = matmul(%1, %10) {transpose_a: true} @fc backward
  )");
  CHECK(gradients == std::vector<ValueId>{13, 12});
}

TEST_CASE_FIXTURE(Fixture, "the terms of a value with two readers are added") {
  check(R"(
    %1 f32 () at 0:0 grad = persistent "w"
    %2 f32 () grad = map(%1) [exp(x0)] @a
    %3 f32 () grad = map(%1, %2) [x0 * x1] @b
  )",
        3, {1}, R"(
    %4 f32 () = map() [1.0] backward
    %5 f32 () grad = map(%4, %2) [x0 * x1] @b backward
    %6 f32 () grad = map(%4, %1) [x0 * x1] @b backward
    %7 f32 () grad = map(%6, %2) [x0 * x1] @a backward
    %8 f32 () grad = map(%5, %7) [x0 + x1] @a backward
  )");
  CHECK(gradients == std::vector<ValueId>{8});
}

TEST_CASE_FIXTURE(Fixture, "gradients stay with the stage of their op") {
  check(R"(
    %1 f32 (4) at 0:0 grad = persistent "w"
    %2 f32 (4) grad = map(%1) [tanh(x0)] @a
    %3 f32 () grad = reduce(%2) {axes: [0], keep: false} @b stage 1
  )",
        3, {1}, R"(
    %4 f32 () = map() [1.0] stage 1 backward
    %5 f32 (1) = reshape(%4) {shape: [1]} @b stage 1 backward
    %6 f32 (4) = map() [0.0] @b stage 1 backward
    %7 f32 (4) = map(%6, %5) [x0 + x1] @b stage 1 backward
    %8 f32 (4) grad = map(%2, %2) [x0 * x1] @a backward
    %9 f32 () weak = map() [1.0] @a backward
    %10 f32 (4) grad = map(%9, %8) [x0 - x1] @a backward
    %11 f32 (4) grad = map(%7, %10) [x0 * x1] @a backward
  )");
  CHECK(gradients == std::vector<ValueId>{11});
}

TEST_CASE_FIXTURE(Fixture, "only values that want a gradient are followed") {
  check(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) at 1:0 grad = persistent "w"
    %3 f32 (4) = map(%1) [exp(x0)]
    %4 f32 (4) grad = map(%3, %2) [x0 * x1]
    %5 f32 () grad = reduce(%4) {axes: [0], keep: false}
    %6 f32 (4) grad = map(%2) [-x0]
  )",
        5, {2, 1, 6}, R"(
    %7 f32 () = map() [1.0] backward
    %8 f32 (1) = reshape(%7) {shape: [1]} backward
    %9 f32 (4) = map() [0.0] backward
    %10 f32 (4) = map(%9, %8) [x0 + x1] backward
    %11 f32 (4) grad = map(%10, %2) [x0 * x1] backward
    %12 f32 (4) = map(%10, %3) [x0 * x1] backward
  )");
  CHECK(gradients == std::vector<ValueId>{12, 0, 0});
}

TEST_CASE_FIXTURE(Fixture, "a loss without a parameter has no backward pass") {
  check(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 () = reduce(%1) {axes: [0], keep: false}
  )",
        2, {1}, "");
  CHECK(gradients == std::vector<ValueId>{0});
}

TEST_CASE_FIXTURE(Fixture, "what cannot be differentiated is named") {
  read(kLinear);
  CHECK_THROWS_WITH_AS(differentiate(g, 5, {2}),
                       "[program] the loss must be a scalar, found f32 (8, 2)", Error);
  read(R"(
    %1 f32 (4) at 0:0 grad = persistent "w"
    %2 f32 (4) grad in %1 = collective_start(%1) {kind: 2, ranks: 2, id: 0} @ranks
    %3 f32 () grad = reduce(%2) {axes: [0], keep: false}
  )");
  CHECK_THROWS_WITH_AS(differentiate(g, 3, {1}),
                       "[ranks] op 'collective_start' has no gradient, but the loss depends on it",
                       Error);
}

TEST_CASE_FIXTURE(TextFixture, "a result that is kept for the backward pass gives no gradient") {
  read(R"(
    %1 f32 (4, 5) at 0:0 grad = persistent "w"
    %2 f32 (4, 2) grad, %3 i32 (4, 2) grad = top_k(%1) {k: 2} @router
    %4 f32 (4, 2) grad = map(%3) [copy(x0)]
    %5 f32 () grad = reduce(%4) {axes: [0, 1], keep: false}
  )");
  CHECK(test::error_of([&] { differentiate(g, 5, {1}); }, PLAIT_ERR_UNIMPLEMENTED) ==
        "[router] top_k: its output 1 has no gradient, but the loss depends on it");
}

TEST_CASE_FIXTURE(TextFixture, "a gradient of rope's tables is refused, not dropped") {
  const auto with = [](const std::string& cos, const std::string& sin) {
    return R"(
    %1 f32 (1, 2, 1, 4) at 0:0 grad = persistent "x"
    %2 f32 (2, 2) at 0:64)" +
           cos + R"( = persistent "cos"
    %3 f32 (2, 2) at 0:128)" +
           sin + R"( = persistent "sin"
    %4 f32 (1, 2, 1, 4) grad = rope(%1, %2, %3) {pairs: "half"} @model.attention
    %5 f32 () grad = reduce(%4) {axes: [0, 1, 2, 3], keep: false}
  )";
  };
  read(with("", ""));
  CHECK(differentiate(g, 5, {1, 2})[1] == 0);
  const auto refused = [&](const std::string& lines, const std::string& name) {
    read(lines);
    const Error e = test::error_of([&] { differentiate(g, 5, {1}); });
    CHECK(e.code() == PLAIT_ERR_UNIMPLEMENTED);
    CHECK(e.text().find("[model.attention] op 'rope' has no gradient for cos and sin, but " + name +
                        " depends on parameters") == 0);
  };
  refused(with(" grad", ""), "cos");
  refused(with("", " grad"), "sin");
}
