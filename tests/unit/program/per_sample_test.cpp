// What is written where parameters differ from sample to sample, op by op, and what is refused. The
// values are tested in tests/unit/runtime.
#include "engine/program/per_sample.hpp"

#include <algorithm>

#include "engine/base/text.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/error_of.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

// Four samples; %1 says which of two values each of them takes.
constexpr const char* kInputs = R"(
  %1 i32 (4) at 0:0 = persistent "which"
  %2 f32 (4, 2, 3) at 0:64 = persistent "x"
  %3 i32 (4, 2) at 0:192 = persistent "ids"
  %4 f32 (2, 3) at 0:256 = persistent "shared"
  %5 f32 (4) at 0:320 = persistent "numbers"
  %6 f32 (6, 3) at 1:0 = persistent "table a"
  %7 f32 (6, 3) at 1:128 = persistent "table b"
  %8 f32 (3, 5) at 1:256 = persistent "matrix a"
  %9 f32 (3, 5) at 1:320 = persistent "matrix b"
  %10 f32 (2, 3) at 1:384 = persistent "plane a"
  %11 f32 (2, 3) at 1:448 = persistent "plane b"
  %12 f32 (3) at 1:512 = persistent "row a"
  %13 f32 (3) at 1:576 = persistent "row b"
)";
constexpr ValueId kX = 2, kIds = 3, kShared = 4, kNumbers = 5;
// What stands for each sample's own; the stacks of both, (2, ..), are %16, %20, %24 and %28.
constexpr ValueId kTable = 17, kMatrix = 21, kPlane = 25, kRow = 29;

struct Fixture : TextFixture {
  // The lines that an op writes, the last one of them its result: rows, or a stack.
  std::string written(const char* op, std::vector<ValueId> in, Attrs attrs = {}) {
    read(kInputs);
    PerSample own(g, 1, [](ValueId v) { return v == kShared; });
    for (const ValueId first : {6u, 8u, 10u, 12u}) own.stand_for({first, first + 1});
    const std::string before = print(g);
    g.scope = "fc";
    const ValueId made = own.apply(op, std::move(in), std::move(attrs))[0];
    const ValueId last = g.ops().back().out[0];
    CHECK((own.stands(made) ? own.stack_of(made) : made) == last);
    CHECK_FALSE(find_fault(g));
    const std::string lines = print(g).substr(before.size() - 2);  // "}\n"
    return std::string(own.stands(made) ? "stack" : "rows") + "\n" +
           lines.substr(0, lines.size() - 2);
  }
  void writes(const std::string& expected, const char* op, std::vector<ValueId> in,
              Attrs attrs = {}) {
    const std::string diff = line_diff(expected, written(op, std::move(in), std::move(attrs)));
    if (!diff.empty()) FAIL_CHECK(op << " does not write what is expected:\n" << diff);
  }
  std::string refusal(const char* op, std::vector<ValueId> in, Attrs attrs = {}) {
    const std::string text = test::error_of([&] { written(op, std::move(in), std::move(attrs)); },
                                            PLAIT_ERR_UNIMPLEMENTED);
    const std::string head =
        std::string("[fc] ") + op + ": cannot read parameters that differ from sample to sample: ";
    return text.starts_with(head) ? text.substr(head.size()) : "no refusal: " + text;
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a writer sees a value of the dims of each sample's own") {
  written("matmul", {kX, kMatrix});
  CHECK(text(g.shape(kTable)) == "f32 (6, 3)");
  CHECK(text(g.shape(kRow)) == "f32 (3)");
}

TEST_CASE_FIXTURE(Fixture, "rows of a sample by the matrix of its own") {
  writes(R"(
    rows
    %30 f32 (4, 3, 5) = gather(%20, %1) @fc
    %31 f32 (4, 2, 5) = matmul(%2, %30) @fc
  )",
         "matmul", {kX, kMatrix});
}

TEST_CASE_FIXTURE(Fixture, "rows by number: row i of table l is row 2i + l of both") {
  writes(R"(
    rows
    %30 f32 (6, 2, 3) = transpose(%16) {perm: [1, 0, 2]} @fc
    %31 f64 (4) = map(%1) [copy(x0)] @fc
    %32 f64 (4, 1) = reshape(%31) {shape: [4, 1]} @fc
    %33 f32 () weak = map() [2.0] @fc
    %34 f64 () = map() [2.0] @fc
    %35 f64 (4, 1) = map(%34, %32) [le(x0, x1)] @fc
    %36 f64 (4, 2) = map(%3) [copy(x0)] @fc
    %37 f64 (4, 2) = map(%36, %34) [x0 * x1] @fc
    %38 f32 () weak = map() [12.0] @fc
    %39 f64 () = map() [12.0] @fc
    %40 f64 (4, 1) = map(%35, %39) [x0 * x1] @fc
    %41 f64 (4, 2) = map(%37, %32) [x0 + x1] @fc
    %42 f64 (4, 2) = map(%41, %40) [x0 + x1] @fc
    %43 f32 (12, 3) = reshape(%30) {shape: [12, 3]} @fc
    %44 i32 (4, 2) = map(%42) [copy(x0)] @fc
    %45 f32 (4, 2, 3) = gather(%43, %44) @fc
  )",
         "gather", {kTable, kIds});
}

TEST_CASE_FIXTURE(Fixture,
                  "element by element: fewer axes get some of 1 behind that of the stack") {
  writes(R"(
    rows
    %30 f32 (4, 3) = gather(%28, %1) @fc
    %31 f32 (4, 1, 3) = reshape(%30) {shape: [4, 1, 3]} @fc
    %32 f32 (4, 2, 3) = map(%2, %31) [x0 * x1] @fc
  )",
         "mul", {kX, kRow});
  writes(R"(
    stack
    %30 f32 (2, 1, 3) = reshape(%28) {shape: [2, 1, 3]} @fc
    %31 f32 (2, 2, 3) = map(%30, %24) [x0 + x1] @fc
  )",
         "add", {kRow, kPlane});
  writes(R"(
    stack
    %30 f32 (2, 1, 3) = reshape(%28) {shape: [2, 1, 3]} @fc
    %31 f32 (2, 2, 3) = map(%30, %4) [x0 + x1] @fc
  )",
         "add", {kRow, kShared});
}

TEST_CASE_FIXTURE(Fixture, "along an axis of a parameter, which is the next one of the stack") {
  writes(R"(
    stack
    %30 f32 (2, 2, 2) = slice(%24) {axis: 2, stop: 2} @fc
  )",
         "slice", {kPlane}, {attr("axis", int64_t{1}), attr("stop", int64_t{2})});
  writes(R"(
    stack
    %30 f32 (1, 2, 3) = reshape(%4) {shape: [1, 2, 3]} @fc
    %31 f32 (2, 2, 3) = concat(%30, %30) @fc
    %32 f32 (2, 2, 6) = concat(%24, %31) {axis: 2} @fc
  )",
         "concat", {kPlane, kShared}, {attr("axis", int64_t{1})});
}

TEST_CASE_FIXTURE(Fixture, "what no rule can write is refused with the reason") {
  CHECK(refusal("matmul", {kX, kMatrix, kNumbers}, {attr("bias", true)}) ==
        "with a bias it does not; add that behind it");
  const std::string nothing_else =
      "it multiplies rows of the samples by matrices of their own, nothing else";
  CHECK(refusal("matmul", {kX, kMatrix}, {attr("transpose_a", true)}) == nothing_else);
  CHECK(refusal("matmul", {kX, kRow}) == nothing_else);
  CHECK(refusal("matmul", {kShared, kMatrix}) == "its first operand is the same for all samples");
  CHECK(refusal("concat", {kPlane, kPlane}, {attr("axis", int64_t{2})}) ==
        "a parameter has no axis 2");
  const std::string no_table =
      "it looks up rows of the samples in tables of their own, nothing else";
  CHECK(refusal("gather", {kTable, kRow}) == no_table);
  CHECK(refusal("gather", {kShared, kRow}) == no_table);
  CHECK(refusal("mul", {kNumbers, kRow}) ==
        "operand 0 f32 (4) has fewer axes than a parameter and one of samples");
}
