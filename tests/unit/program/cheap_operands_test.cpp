// The operands of products that the backward pass recomputes by itself.
#include "engine/program/cheap_operands.hpp"

#include "engine/program/recompute.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

using Values = std::vector<ValueId>;

// A product that takes 2 x 5 FLOPs for each element of its operand.
constexpr double kProduct = 10;

struct Fixture : TextFixture {
  Values found(const std::string& lines, double flops = kProduct) {
    read(lines);
    return cheap_operands(g, flops);
  }
};

const std::string kInputs = R"(
  %1 f32 (4, 3) at 0:0 = persistent "x"
  %2 f32 (5, 3) at 1:0 = persistent "w"
  %3 f32 (3) at 1:60 = persistent "gain"
  %4 f32 (3) at 1:72 = persistent "bias"
  %5 f32 (3, 3) at 1:84 = persistent "u"
  %6 f32 (4, 5) at 3:0 = persistent "dy"
)";
const std::string kHidden = kInputs + "  %10 f32 (4, 3) = matmul(%1, %5) @a\n";
const std::string kExp = "  %11 f32 (4, 3) = map(%10) [exp(x0)] @a\n";
const std::string kForward =
    kHidden + kExp + "  %12 f32 (4, 5) at 3:80 = matmul(%11, %2) {transpose_b: true} @b\n";
const std::string kWeight =
    "  %21 f32 (5, 3) at 2:0 = matmul(%6, %11) {transpose_a: true} @b backward\n";
// Keeps %10.
const std::string kKeeps = "  %22 f32 (4, 3) at 3:160 = map(%10) [x0 * x0] @a backward\n";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "an element-wise result of a kept value, read by a product") {
  CHECK(found(kForward + kWeight + kKeeps) == Values{11});
  recompute(g, cheap_operands(g, kProduct), false);
  expect(kForward + R"(
  %23 f32 (4, 3) = map(%10) [exp(x0)] @a backward
  %21 f32 (5, 3) at 2:0 = matmul(%6, %23) {transpose_a: true} @b backward
)" + kKeeps);
  CHECK_FALSE(find_fault(g));
}

TEST_CASE_FIXTURE(Fixture, "a product too small for its operand") {
  CHECK(found(kForward + kWeight + kKeeps, kProduct * 1.01).empty());
}

TEST_CASE_FIXTURE(Fixture, "two products of one operand count together") {
  const std::string second =
      "  %23 f32 (5, 3) at 2:60 = matmul(%6, %11) {transpose_a: true} @b backward\n";
  CHECK(found(kForward + kWeight + second + kKeeps, 2 * kProduct) == Values{11});
}

TEST_CASE_FIXTURE(Fixture, "its own operand is not kept") {
  CHECK(found(kForward + kWeight).empty());
}

TEST_CASE_FIXTURE(Fixture, "persistent memory is there, unless it changes") {
  const std::string forward = kInputs +
                              "  %11 f32 (4, 3) = map(%1, %4) [x0 + x1] @a\n"
                              "  %12 f32 (4, 5) at 3:80 = matmul(%11, %2) {transpose_b: true} @b\n";
  CHECK(found(forward + kWeight) == Values{11});
  CHECK(found(forward + "  %13 f32 (3) in %4 = map(%4) [x0 + 1.0] @a\n" + kWeight).empty());
}

TEST_CASE_FIXTURE(Fixture, "a norm, which the backward pass reads through a view") {
  const std::string forward = kHidden + R"(
  %11 f32 (4, 3), %12 f32 (4), %13 f32 (4) = layer_norm(%10, %3, %4) @a
  %14 f32 (2, 2, 3) = reshape(%11) {shape: [2, 2, 3]} @b
)";
  const std::string backward = R"(
  %20 f32 (4, 3) = reshape(%14) {shape: [4, 3]} @b backward
  %21 f32 (5, 3) at 2:0 = matmul(%6, %20) {transpose_a: true} @b backward
)";
  CHECK(found(forward + backward + kKeeps) == Values{14});
}

TEST_CASE_FIXTURE(Fixture, "a reader that is no product keeps it in any case") {
  CHECK(found(kForward + kWeight + kKeeps +
              "  %23 f32 (4, 3) at 3:208 = map(%11) [x0 + 1.0] @a backward\n")
            .empty());
}

TEST_CASE_FIXTURE(Fixture, "an op that is not cheap lies between") {
  CHECK(found(kHidden + R"(
  %11 f32 (4, 3) = softmax(%10) @a
  %12 f32 (4, 5) at 3:80 = matmul(%11, %2) {transpose_b: true} @b
)" + kWeight + kKeeps)
            .empty());
}

TEST_CASE_FIXTURE(Fixture, "of two in a row both, with the first computed once") {
  const std::string forward = kForward + "  %13 f32 (4, 3) = map(%11) [tanh(x0)] @b\n";
  const std::string second =
      "  %23 f32 (5, 3) at 2:60 = matmul(%6, %13) {transpose_a: true} @b backward\n";
  CHECK(found(forward + second + kWeight + kKeeps) == Values{11, 13});
}

TEST_CASE_FIXTURE(Fixture, "what another stage has is not made again") {
  const std::string forward = kHidden + R"(
  %11 f32 (4, 3) = map(%10) [exp(x0)] @a stage 1
  %12 f32 (4, 5) at 3:80 = matmul(%11, %2) {transpose_b: true} @b stage 1
)";
  CHECK(
      found(forward +
            "  %21 f32 (5, 3) at 2:0 = matmul(%6, %11) {transpose_a: true} @b stage 1 backward\n" +
            kKeeps)
          .empty());
}

TEST_CASE_FIXTURE(Fixture, "what is read through a view alone is not kept by its own name") {
  CHECK(found(kForward + kWeight + R"(
  %14 f32 (12) = reshape(%10) {shape: [12]} @a
  %22 f32 (12) at 3:160 = map(%14) [x0 * x0] @a backward
)")
            .empty());
}
