// Which products of a program are computed in TF32.
#include "engine/program/tf32.hpp"

#include "engine/program/op_def.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  static bool any(const Graph&, const Op&) { return true; }
  static bool none(const Graph&, const Op&) { return false; }
  void check(const HasKernel& has_kernel, const std::string& before, const std::string& after) {
    expect_after([&] { use_tf32(g, has_kernel); }, before, after);
    CHECK_FALSE(find_fault(g));
  }
};

const char* const kProducts = R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 2) at 1:0 = persistent "w"
    %3 f32 (2) at 1:32 = persistent "b"
    %4 f32 (8, 2) = matmul(%1, %2, %3) {bias: true, activation: "relu"} @fc
    %5 bf16 (8, 2) = map(%4) [copy(x0)] @cast
    %6 bf16 (8, 8) = matmul(%5, %5) {transpose_b: true} @low
    %7 f32 (8, 2) = matmul(%1, %2) @head
  )";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "products of f32 are, others are not") {
  check(any, kProducts, R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 2) at 1:0 = persistent "w"
    %3 f32 (2) at 1:32 = persistent "b"
    %4 f32 (8, 2) = matmul(%1, %2, %3) {bias: true, activation: "relu", tf32: true} @fc
    %5 bf16 (8, 2) = map(%4) [copy(x0)] @cast
    %6 bf16 (8, 8) = matmul(%5, %5) {transpose_b: true} @low
    %7 f32 (8, 2) = matmul(%1, %2) {tf32: true} @head
  )");
  CHECK(uses_tf32(g.ops()[0]));
  CHECK_FALSE(uses_tf32(g.ops()[1]));
}

TEST_CASE_FIXTURE(Fixture, "a device without such kernels leaves them as they are") {
  check(none, kProducts, kProducts);
}

TEST_CASE_FIXTURE(Fixture, "each product is asked for with all that was folded into it") {
  const auto without_bias = [](const Graph&, const Op& op) {
    return op.attrs.integer("tf32", 0) != 0 && op.attrs.integer("bias", 0) == 0;
  };
  check(without_bias, kProducts, R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 2) at 1:0 = persistent "w"
    %3 f32 (2) at 1:32 = persistent "b"
    %4 f32 (8, 2) = matmul(%1, %2, %3) {bias: true, activation: "relu"} @fc
    %5 bf16 (8, 2) = map(%4) [copy(x0)] @cast
    %6 bf16 (8, 8) = matmul(%5, %5) {transpose_b: true} @low
    %7 f32 (8, 2) = matmul(%1, %2) {tf32: true} @head
  )");
}
