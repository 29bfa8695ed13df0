// Where a chain of cheap ops ends, and the first op of a program.
#include "engine/program/rematerialize.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

std::string one(int v, const std::string& place, const std::string& of) {
  return "%" + std::to_string(v) + " f32 (8, 4)" + place + " = map(" + of + " @act\n";
}

}  // namespace

// Of 80 ops, more than one map holds.
TEST_CASE_FIXTURE(TextFixture, "a chain ends at what lies outside the program, and at numbers") {
  for (const bool number : {false, true}) {
    std::string lines = R"(
      %1 f32 (8, 4) at 0:0 = persistent "x"
      %2 f32 () at 0:128 = persistent "s"
      %3 f32 () = map(%2) [exp(x0)] @act
    )";
    for (int i = 0; i < 80; ++i) {
      if (i == 0 || (i == 40 && number))
        lines += one(10 + i, "", "%1, %3) [x0 * x1]");
      else
        lines += one(10 + i, i == 39 && !number ? " at 3:0" : "",
                     "%" + std::to_string(9 + i) + ") [tanh(x0)]");
    }
    lines += "%100 f32 (8, 4) at 2:0 = map(%12, %52) [x0 * x1] @act backward";
    read(lines);
    rematerialize(g);
    CHECK_FALSE(find_fault(g));
    // Three ops before %12, and of the other half those from %50 to %52.
    CHECK(g.ops().size() == 82 + 6);
    for (const ValueId v : {12, 52})
      for (const int32_t r : g.readers(v)) CHECK_FALSE(g.ops()[static_cast<size_t>(r)].backward);
  }
}

TEST_CASE_FIXTURE(TextFixture, "the first op of a program is made again as any other") {
  const std::string forward = R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (8, 4) = map(%1) [exp(x0)] @act stage 1
    %3 f32 (8, 4) = map(%2) [tanh(x0)] @last stage 1
    %5 f32 (8, 4) = map(%3) [-x0] @last stage 1 backward
  )";
  read(forward + "%6 f32 (8, 4) at 2:0 = map(%5, %2) [x0 * x1] @act stage 1 backward");
  rematerialize(g);
  CHECK_FALSE(find_fault(g));
  expect(forward + R"(
    %7 f32 (8, 4) = map(%1) [exp(x0)] @act stage 1 backward
    %6 f32 (8, 4) at 2:0 = map(%5, %7) [x0 * x1] @act stage 1 backward
  )");
  g.apply1("neg", {1});
  CHECK(g.ops().back().stage == 0);
  CHECK_FALSE(g.ops().back().backward);
}

TEST_CASE_FIXTURE(TextFixture, "numbers that are no floats are kept") {
  const char* lines = R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 u8 (8, 4) = map(%1) [lt(x0, 0.0)] @act
    %5 f32 (8, 4) at 2:0 = map(%1, %2) [x0 * x1] @act backward
  )";
  expect_unchanged([this] { rematerialize(g); }, lines);
}
