// Mixed precision: types of values, and casts, in small programs.
#include "engine/program/precision.hpp"

#include "engine/program/differentiate.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  void check(const std::string& before, const std::string& after, PrecisionRules rules = {}) {
    rules.low = PLAIT_BF16;
    read(before);
    lower_precision(g, rules);
    expect(after);
    CHECK_FALSE(find_fault(g));
  }
  void check_fold(const std::string& before, const std::string& after,
                  std::vector<ValueId> kept = {}) {
    read(before);
    std::vector<ValueId*> all;
    for (ValueId& v : kept) all.push_back(&v);
    fold_casts(g, all);
    expect(after);
    CHECK_FALSE(find_fault(g));
    kept_ = kept;
  }
  std::vector<ValueId> kept_;
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a product is low; its bias does not decide, a loss is f32") {
  check(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 2) at 1:0 grad = persistent "w"
    %3 f32 (2) at 1:32 grad = persistent "b"
    %4 f32 (8, 2) grad = matmul(%1, %2) @fc
    %5 f32 (8, 2) grad = map(%4, %3) [x0 + x1] @fc
    %6 f32 (8, 2) grad = map(%5) [max(x0, 0.0)] @relu
    %7 f32 () grad = reduce(%6) {axes: [0, 1], keep: false} @loss
  )",
        R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 2) at 1:0 grad = persistent "w"
    %3 f32 (2) at 1:32 grad = persistent "b"
    %8 bf16 (8, 4) = map(%1) [copy(x0)] @fc
    %9 bf16 (4, 2) grad = map(%2) [copy(x0)] @fc
    %4 bf16 (8, 2) grad = matmul(%8, %9) @fc
    %5 bf16 (8, 2) grad = map(%4, %3) [x0 + x1] @fc
    %6 bf16 (8, 2) grad = map(%5) [max(x0, 0.0)] @relu
    %7 f32 () grad = reduce(%6) {axes: [0, 1], keep: false} @loss
  )");
}

TEST_CASE_FIXTURE(Fixture, "a residual stream is f32, or low with its table; losses are f32") {
  const std::string inputs = R"(
    %1 i32 (8) at 0:0 = persistent "ids"
    %2 f32 (9, 4) at 1:0 grad = persistent "table"
    %3 f32 (4) at 1:192 grad = persistent "gain"
    %4 f32 (4, 4) at 1:256 grad = persistent "w"
  )";
  const std::string before = inputs + R"(
    %5 f32 (8, 4) grad = gather(%2, %1) @embed
    %6 f32 (8, 4) grad, %7 f32 (8) grad = rms_norm(%5, %3) @norm
    %8 f32 (8, 4) grad = matmul(%6, %4) @fc
    %9 f32 (8, 4) grad = map(%5, %8) [x0 + x1] @add
    %10 f32 (8, 4) grad = map(%9, %8) [x0 * x1] @loss
  )";
  const std::pair<size_t, size_t> loss{4, 5};
  check(before, inputs + R"(
    %5 f32 (8, 4) grad = gather(%2, %1) @embed
    %6 f32 (8, 4) grad, %7 f32 (8) grad = rms_norm(%5, %3) @norm
    %11 bf16 (8, 4) grad = map(%6) [copy(x0)] @fc
    %12 bf16 (4, 4) grad = map(%4) [copy(x0)] @fc
    %8 bf16 (8, 4) grad = matmul(%11, %12) @fc
    %9 f32 (8, 4) grad = map(%5, %8) [x0 + x1] @add
    %10 f32 (8, 4) grad = map(%9, %8) [x0 * x1] @loss
  )",
        {.wide_ops = {loss}});
  // The norm then writes what its only reader reads.
  fold_casts(g, {});
  expect(inputs + R"(
    %5 f32 (8, 4) grad = gather(%2, %1) @embed
    %6 bf16 (8, 4) grad, %7 f32 (8) grad = rms_norm(%5, %3) {dtype: 3} @norm
    %11 bf16 (8, 4) grad = map(%6) [copy(x0)] @fc
    %12 bf16 (4, 4) grad = map(%4) [copy(x0)] @fc
    %8 bf16 (8, 4) grad = matmul(%6, %12) @fc
    %9 f32 (8, 4) grad = map(%5, %8) [x0 + x1] @add
    %10 f32 (8, 4) grad = map(%9, %8) [x0 * x1] @loss
  )");
  check(before, inputs + R"(
    %11 bf16 (9, 4) grad = map(%2) [copy(x0)] @embed
    %5 bf16 (8, 4) grad = gather(%11, %1) @embed
    %6 bf16 (8, 4) grad, %7 f32 (8) grad = rms_norm(%5, %3) @norm
    %12 bf16 (4, 4) grad = map(%4) [copy(x0)] @fc
    %8 bf16 (8, 4) grad = matmul(%6, %12) @fc
    %9 bf16 (8, 4) grad = map(%5, %8) [x0 + x1] @add
    %10 f32 (8, 4) grad = map(%9, %8) [x0 * x1] @loss
  )",
        {.low_residual = true, .wide_ops = {loss}});
}

TEST_CASE_FIXTURE(Fixture, "what nothing is known of reads f32") {
  check(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (8, 8) = matmul(%1, %1) {transpose_b: true} @fc
    %3 f32 (8, 8) = softmax(%2) @softmax
    %4 f32 (8, 4) = matmul(%3, %1) @out
  )",
        R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %5 bf16 (8, 4) = map(%1) [copy(x0)] @fc
    %6 bf16 (8, 4) = map(%1) [copy(x0)] @fc
    %2 bf16 (8, 8) = matmul(%5, %6) {transpose_b: true} @fc
    %7 f32 (8, 8) = map(%2) [copy(x0)] @softmax
    %3 f32 (8, 8) = softmax(%7) @softmax
    %8 bf16 (8, 8) = map(%3) [copy(x0)] @out
    %9 bf16 (8, 4) = map(%1) [copy(x0)] @out
    %4 bf16 (8, 4) = matmul(%8, %9) @out
  )");
}

TEST_CASE_FIXTURE(Fixture, "a gradient of a weight is f32 out of its product") {
  check_fold(R"(
    %1 bf16 (8, 4) at 0:0 = persistent "x"
    %2 bf16 (8, 2) at 1:0 = persistent "dy"
    %3 bf16 (4, 2) = matmul(%1, %2) {transpose_a: true} @fc backward
    %4 f32 (4, 2) = map(%3) [copy(x0)] @fc backward
  )",
             R"(
    %1 bf16 (8, 4) at 0:0 = persistent "x"
    %2 bf16 (8, 2) at 1:0 = persistent "dy"
    %3 f32 (4, 2) = matmul(%1, %2) {transpose_a: true, dtype: 1} @fc backward
    %4 f32 (4, 2) = map(%3) [copy(x0)] @fc backward
  )",
             {4});
  CHECK(kept_ == std::vector<ValueId>{3});
}

TEST_CASE_FIXTURE(Fixture, "of two casts the one that changes nothing goes") {
  check_fold(R"(
    %1 bf16 (4) at 0:0 = persistent "x"
    %5 f32 (4) at 0:64 = persistent "y"
    %2 f32 (4) = map(%1) [copy(x0)]
    %3 bf16 (4) = map(%2) [copy(x0)]
    %4 bf16 (4) = map(%3) [max(x0, 0.0)]
    %6 bf16 (4) = map(%5) [copy(x0)]
    %7 f32 (4) = map(%6) [copy(x0)]
    %8 f32 (4) = map(%7) [max(x0, 0.0)]
    %9 bf16 (4) = map(%5) [copy(x0)] backward
    %10 f32 (4) = map(%9) [copy(x0)] backward
    %11 f32 (4) = map(%10) [max(x0, 0.0)] backward
  )",
             R"(
    %1 bf16 (4) at 0:0 = persistent "x"
    %5 f32 (4) at 0:64 = persistent "y"
    %2 f32 (4) = map(%1) [copy(x0)]
    %3 bf16 (4) = map(%2) [copy(x0)]
    %4 bf16 (4) = map(%1) [max(x0, 0.0)]
    %6 bf16 (4) = map(%5) [copy(x0)]
    %7 f32 (4) = map(%6) [copy(x0)]
    %8 f32 (4) = map(%7) [max(x0, 0.0)]
    %9 bf16 (4) = map(%5) [copy(x0)] backward
    %10 f32 (4) = map(%9) [copy(x0)] backward
    %11 f32 (4) = map(%5) [max(x0, 0.0)] backward
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "what is summed in the memory of a cast is summed in that of its product") {
  check_fold(R"(
    %1 bf16 (8, 4) at 0:0 = persistent "x"
    %2 bf16 (8, 2) at 1:0 = persistent "dy"
    %3 bf16 (4, 2) = matmul(%1, %2) {transpose_a: true}
    %4 f32 (4, 2) = map(%3) [copy(x0)]
    %5 f32 (4, 2) in %4 = collective_start(%4) {kind: 2, ranks: 2, id: 0}
    %6 f32 (4, 2) in %5 = collective_done(%5) {id: 0}
  )",
             R"(
    %1 bf16 (8, 4) at 0:0 = persistent "x"
    %2 bf16 (8, 2) at 1:0 = persistent "dy"
    %3 f32 (4, 2) = matmul(%1, %2) {transpose_a: true, dtype: 1}
    %4 f32 (4, 2) = map(%3) [copy(x0)]
    %5 f32 (4, 2) in %3 = collective_start(%3) {kind: 2, ranks: 2, id: 0}
    %6 f32 (4, 2) in %5 = collective_done(%5) {id: 0}
  )");
}

TEST_CASE_FIXTURE(Fixture, "a weight kept in 16 bits is read as it is, when gradients are known") {
  const std::string inputs = R"(
    %1 bf16 (8, 4) at 0:0 = persistent "x"
    %2 bf16 (4, 4) at 1:0 grad = persistent "w"
    %3 f32 (4, 4) grad = map(%2) [copy(x0)] @fc
  )";
  // Two casts: the gradients that come through them are added up in f32.
  const std::string lowered = inputs + R"(
    %6 bf16 (4, 4) grad = map(%3) [copy(x0)] @fc
    %4 bf16 (8, 4) grad = matmul(%1, %6) @fc
    %7 bf16 (4, 4) grad = map(%3) [copy(x0)] @again
    %5 bf16 (8, 4) grad = matmul(%4, %7) @again
  )";
  check(inputs + R"(
    %4 f32 (8, 4) grad = matmul(%1, %3) @fc
    %5 f32 (8, 4) grad = matmul(%4, %3) @again
  )",
        lowered);
  fold_casts(g, {}, CastsOfInputs::kKeepForGradients);
  expect(lowered);
  fold_casts(g, {});
  expect(inputs + R"(
    %6 bf16 (4, 4) grad = map(%3) [copy(x0)] @fc
    %4 bf16 (8, 4) grad = matmul(%1, %2) @fc
    %7 bf16 (4, 4) grad = map(%3) [copy(x0)] @again
    %5 bf16 (8, 4) grad = matmul(%4, %2) @again
  )");
}

TEST_CASE_FIXTURE(Fixture, "rows of a table of 16 bits are widened, not the table") {
  const std::string inputs = R"(
    %1 i32 (8) at 0:0 = persistent "ids"
    %2 bf16 (9, 4) at 1:0 = persistent "table"
    %3 f32 (9, 4) at 2:0 = persistent "another"
    %4 f32 (9, 4) = map(%2) [copy(x0)] @embed
  )";
  const std::string others = R"(
    %6 f32 (8, 4) = gather(%3, %1) @another
    %7 f32 (8, 4) = map(%5, %6) [x0 + x1] @add stage 1
  )";
  expect_after(
      [&] { widen_rows(g); },
      inputs + "%5 f32 (8, 4) = gather(%4, %1) @embed stage 1 backward not_deferred" + others,
      inputs + R"(
    %8 bf16 (8, 4) = gather(%2, %1) @embed stage 1 backward not_deferred
    %5 f32 (8, 4) = map(%8) [copy(x0)] @embed stage 1 backward not_deferred
  )" + others);
  CHECK_FALSE(find_fault(g));
}

TEST_CASE_FIXTURE(Fixture, "experts are low, their router and the weights of their sum are f32") {
  check(R"(
    %1 f32 (4, 6) at 0:0 = persistent "x"
    %2 f32 (3, 6) at 1:0 grad = persistent "router"
    %3 f32 (3, 6, 6) at 1:128 grad = persistent "w"
    %4 f32 (4, 3) grad = matmul(%1, %2) {transpose_b: true, wide: true} @m
    %5 f32 (4, 2) grad, %6 i32 (4, 2) = top_k(%4) {k: 2} @m
    %7 f32 (8, 6), %8 i32 (4, 2), %9 i32 (4) = group_rows(%1, %6) {groups: 3} @m
    %10 f32 (8, 6) grad = grouped_matmul(%7, %3, %9) @m
    %11 f32 (4, 6) grad = ungroup_rows(%10, %5, %8) @m
  )",
        R"(
    %1 f32 (4, 6) at 0:0 = persistent "x"
    %2 f32 (3, 6) at 1:0 grad = persistent "router"
    %3 f32 (3, 6, 6) at 1:128 grad = persistent "w"
    %4 f32 (4, 3) grad = matmul(%1, %2) {transpose_b: true, wide: true} @m
    %5 f32 (4, 2) grad, %6 i32 (4, 2) = top_k(%4) {k: 2} @m
    %12 bf16 (4, 6) = map(%1) [copy(x0)] @m
    %7 bf16 (8, 6), %8 i32 (4, 2), %9 i32 (4) = group_rows(%12, %6) {groups: 3} @m
    %13 bf16 (3, 6, 6) grad = map(%3) [copy(x0)] @m
    %10 bf16 (8, 6) grad = grouped_matmul(%7, %13, %9) @m
    %11 bf16 (4, 6) grad = ungroup_rows(%10, %5, %8) @m
  )");
}
