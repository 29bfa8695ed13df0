// Results in the memory of an operand that has no more readers, and what forbids them.
#include "engine/program/overwrite_inputs.hpp"

#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

const std::string kInputs = R"(
    %1 f32 (2, 3) at 0:0 = persistent "x"
    %2 i32 (2) at 0:24 = persistent "label"
    %3 f32 (2) at 0:32 = persistent "d"
)";
const std::string kLogits = kInputs + R"(
    %4 f32 (2, 3) = map(%1) [max(x0, 0.0)] @relu
    %5 f32 (2), %6 f32 (2) = cross_entropy(%4, %2) @loss
)";
const std::string kGradient = "    %7 f32 (2, 3) = cross_entropy_grad(%4, %2, %6, %3) @loss\n";

struct Fixture : TextFixture {
  void overwrites(const std::string& lines, const std::string& after, bool kernel = true) {
    expect_after([&] { overwrite_inputs(g, [&](const Graph&, const Op&) { return kernel; }); },
                 lines, after);
    CHECK_FALSE(find_fault(g));
  }
  void stays(const std::string& lines, bool kernel = true) { overwrites(lines, lines, kernel); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "the last reader of a transient operand writes over it") {
  const std::string end = "    %8 f32 (2, 3) = map(%7) [x0 + 1.0] @end\n";
  overwrites(
      kLogits + kGradient + end,
      kLogits +
          "    %7 f32 (2, 3) in %4 = cross_entropy_grad(%4, %2, %6, %3) in_place [0] @loss\n" +
          end);
}

TEST_CASE_FIXTURE(Fixture, "of two in a row, the second writes over the result of the first") {
  const std::string begin = kInputs + "    %4 f32 (2, 3) = map(%1) [max(x0, 0.0)] @relu\n";
  overwrites(begin + R"(
    %5 f32 (2, 3) = softmax(%4) @a
    %6 f32 (2, 3) = softmax(%5) @b
    %7 f32 (2, 3) = map(%6) [x0 + 1.0] @end
  )",
             begin + R"(
    %5 f32 (2, 3) in %4 = softmax(%4) in_place [0] @a
    %6 f32 (2, 3) in %5 = softmax(%5) in_place [0] @b
    %7 f32 (2, 3) = map(%6) [x0 + 1.0] @end
  )");
}

TEST_CASE_FIXTURE(Fixture, "what is read later stays, by itself or through a view") {
  stays(kLogits + kGradient + "    %8 f32 (2, 3) = map(%4, %7) [x0 + x1] @end\n");
  stays(kLogits + "    %8 f32 (6) = reshape(%4) {shape: [6]} @view\n" +
        "    %7 f32 (2, 3) = cross_entropy_grad(%4, %2, %6, %3) @loss\n" +
        "    %9 f32 (6) = map(%8) [x0 + 1.0] @end\n");
}

TEST_CASE_FIXTURE(Fixture, "memory outside the program stays") {
  stays(kInputs + R"(
    %5 f32 (2), %6 f32 (2) = cross_entropy(%1, %2) @loss
    %7 f32 (2, 3) = cross_entropy_grad(%1, %2, %6, %3) @loss
  )");
}

TEST_CASE_FIXTURE(Fixture, "an operand that is a part of its memory stays") {
  stays(kInputs + R"(
    %4 f32 (4, 3) = map() [1.0] @ones
    %5 f32 (2, 3) in %4 = view
    %6 f32 (2, 3) = softmax(%5) @a
  )");
}

TEST_CASE_FIXTURE(Fixture, "no kernel that writes over its operand: nothing changes") {
  stays(kLogits + kGradient, false);
}
