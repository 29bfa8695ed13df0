// Which element-wise ops become one, and which must stay apart.
#include "engine/program/passes.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  static std::string with_operands(const std::string& lines) {
    return R"(
      %1 f32 (4, 2) at 0:0 = persistent "x"
      %2 f32 (2) at 0:64 = persistent "row"
      %3 f32 () at 0:128 = persistent "s"
    )" + lines;
  }
  void fuses(const std::string& lines, const std::string& after) {
    read(with_operands(lines));
    fuse_maps(g);
    expect(with_operands(after));
    CHECK_FALSE(find_fault(g));
  }
  void stays(const std::string& lines) { fuses(lines, lines); }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a chain becomes one op where the last one stood") {
  fuses(R"(
    %4 f32 (4, 2) = map(%1, %2) [x0 + x1] @a
    %5 f32 (4, 2) = map(%4) [exp(x0)] @b
    %6 f32 (4, 2) at 1:0 = map(%5, %1) [x0 * x1] @c
  )",
        R"(
    %6 f32 (4, 2) at 1:0 = map(%1, %2) [exp(x0 + x1) * x0] @c
  )");
}

TEST_CASE_FIXTURE(Fixture, "a value that others read as well is one more result") {
  fuses(R"(
    %4 f32 (4, 2) = map(%1) [exp(x0)]
    %5 f32 (4, 2) = map(%4) [-x0]
    %6 f32 (4) at 1:0 = reduce(%4) {axes: [1], keep: false}
    %7 f32 (4) at 1:64 = reduce(%5) {axes: [1], keep: false}
  )",
        R"(
    %5 f32 (4, 2), %4 f32 (4, 2) = map(%1) [t0 = exp(x0); -t0, t0]
    %6 f32 (4) at 1:0 = reduce(%4) {axes: [1], keep: false}
    %7 f32 (4) at 1:64 = reduce(%5) {axes: [1], keep: false}
  )");
}

TEST_CASE_FIXTURE(Fixture, "scalars are computed by each reader, equal ones once in it") {
  fuses(R"(
    %4 f32 () = map() [2.0]
    %5 f32 () = map(%3, %4) [x0 * x1]
    %6 f32 (4, 2) at 1:0 = map(%1, %5) [x0 + x1]
    %7 f32 (2) = map(%2, %5) [x0 - x1]
    %8 f32 (2) at 1:64 = map(%7, %5) [x0 * x1]
  )",
        R"(
    %6 f32 (4, 2) at 1:0 = map(%3, %1) [x1 + x0 * 2.0]
    %8 f32 (2) at 1:64 = map(%3, %2) [t0 = x0 * 2.0; (x1 - t0) * t0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "equal instructions become one, whatever operands lie before theirs") {
  fuses(R"(
    %4 f32 () = map(%3) [exp(x0)]
    %5 f32 (4, 2) at 1:0 = map(%1, %3, %4) [x0 * exp(x1) + x2]
  )",
        R"(
    %5 f32 (4, 2) at 1:0 = map(%3, %1) [t0 = exp(x0); x1 * t0 + t0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "an op of another shape stays apart") {
  stays(R"(
    %4 f32 (2) = map(%2) [exp(x0)]
    %5 f32 (4, 2) at 1:0 = map(%1, %4) [x0 * x1]
  )");
}

TEST_CASE_FIXTURE(Fixture, "arithmetic on 16 bits does not round between two instructions") {
  fuses(R"(
    %4 bf16 (4, 2) = map(%1) [exp(x0)]
    %5 bf16 (4, 2) at 1:0 = map(%4) [-x0]
  )",
        R"(
    %5 bf16 (4, 2) at 1:0 = map(%1) [-exp(x0)]
  )");
}

TEST_CASE_FIXTURE(Fixture, "rounding to a narrow type, and arithmetic of two widths, stay apart") {
  stays(R"(
    %4 bf16 (4, 2) = map(%1) [copy(x0)]
    %5 f32 (4, 2) at 1:0 = map(%4) [-x0]
  )");
  stays(R"(
    %4 f32 (4, 2) = map(%1) [exp(x0)]
    %5 f64 (4, 2) at 1:0 = map(%4) [-x0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "an op does not move behind a write to what it reads") {
  stays(R"(
    %4 f32 (4, 2) = map(%1) [exp(x0)]
    %5 f32 (4, 2) in %1 = map(%2) [copy(x0)]
    %6 f32 (4, 2) at 1:0 = map(%4) [-x0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "an op that another one reads before the second does not move") {
  fuses(R"(
    %4 f32 (4, 2) = map(%1) [exp(x0)]
    %5 f32 (4) = reduce(%4) {axes: [1], keep: false}
    %6 f32 (4, 1) = reshape(%5) {shape: [4, 1]}
    %7 f32 (4, 2) at 1:0 = map(%4, %6) [x0 / x1]
  )",
        R"(
    %4 f32 (4, 2) = map(%1) [exp(x0)]
    %5 f32 (4) = reduce(%4) {axes: [1], keep: false}
    %6 f32 (4, 1) = reshape(%5) {shape: [4, 1]}
    %7 f32 (4, 2) at 1:0 = map(%4, %6) [x0 / x1]
  )");
}

TEST_CASE_FIXTURE(Fixture, "updates in place of one shape that read the same become one pass") {
  fuses(R"(
    %4 f32 (4, 2) at 2:0 = persistent "m"
    %5 f32 (4, 2) = map(%4, %1) [x0 + x1]
    %6 f32 (4, 2) in %4 = map(%5) [copy(x0)]
    %7 f32 (4, 2) = map(%1, %3) [x0 * x1]
    %8 f32 (4, 2) in %1 = map(%7) [copy(x0)]
  )",
        R"(
    %4 f32 (4, 2) at 2:0 = persistent "m"
    %8 f32 (4, 2) in %1, %6 f32 (4, 2) in %4 = map(%4, %1, %3) )"
        R"([t0 = copy(x0 + x1); t1 = copy(x1 * x2); t1, t0] in_place [1, 0]
  )");
}

TEST_CASE_FIXTURE(Fixture, "an update in place takes all earlier readers of its shape along") {
  fuses(R"(
    %4 f32 (4, 2) at 1:0 = map(%1) [exp(x0)]
    %5 f32 (4, 2) at 1:64 = map(%1) [-x0]
    %6 f32 (4, 2) in %1 = map(%1, %3) [x0 * x1]
  )",
        R"(
    %6 f32 (4, 2) in %1, %5 f32 (4, 2) at 1:64, %4 f32 (4, 2) at 1:0 = map(%1, %3) )"
        R"([t0 = exp(x0); t1 = -x0; t2 = x0 * x1; t2, t1, t0] in_place [0, -1, -1]
  )");
}

TEST_CASE_FIXTURE(Fixture, "but none of another shape or arithmetic") {
  stays(R"(
    %4 f32 (3, 4, 2) at 1:0 = map(%1) [exp(x0)]
    %5 f64 (4, 2) at 1:128 = map(%1) [-x0]
    %6 f32 (4, 2) in %1 = map(%1, %3) [x0 * x1] in_place [0]
  )");
}

// With its value as one more result it would have 21 operands.
TEST_CASE_FIXTURE(Fixture, "a map that 20 operands kept apart follows what reads it as well") {
  std::string inputs, first, second;
  for (int i = 0; i < 19; ++i) {
    const std::string v = "%" + std::to_string(10 + i);
    inputs += v + " f32 (4, 2) at 5:" + std::to_string(64 * i) + " = persistent \"p\"\n";
    (i < 10 ? first : second) += (i == 0 ? "" : ", ") + v;
  }
  const auto sum = [](int n) {
    std::string all = "x0";
    for (int i = 1; i < n; ++i) all += " + x" + std::to_string(i);
    return " [" + all + "]\n";
  };
  read(inputs + "%40 f32 (4, 2) = map(" + first + ")" + sum(10) + "%41 f32 (4, 2) = map(%40" +
       second + ")" + sum(10) + "%42 f32 (4, 2) at 1:0 = map(%40, %41) [x0 * x1]\n");
  fuse_maps(g);
  REQUIRE(g.ops().size() == 1);
  CHECK(g.ops()[0].in.size() == 19);
  CHECK(g.ops()[0].map.instrs.size() == 19);
  CHECK_FALSE(find_fault(g));
}

TEST_CASE_FIXTURE(Fixture, "a joined op keeps within 96 instructions") {
  std::string lines;
  for (int i = 0; i < 120; ++i)
    lines += "%" + std::to_string(4 + i) + " f32 (4, 2)" + (i == 119 ? " at 1:0" : "") +
             " = map(%" + std::to_string(i ? 3 + i : 1) + ") [exp(x0)]\n";
  read(with_operands(lines));
  fuse_maps(g);
  REQUIRE(g.ops().size() == 2);
  CHECK(g.ops()[0].map.instrs.size() == 96);
  CHECK(g.ops()[1].map.instrs.size() == 24);
  CHECK_FALSE(find_fault(g));
}

TEST_CASE_FIXTURE(Fixture, "what nobody reads goes, what lies outside the program stays") {
  fuses(R"(
    %4 f32 (4, 2) = map(%1) [exp(x0)]
    %5 f32 (4, 2) at 1:0 = map(%1) [-x0]
    %6 f32 (4) = reduce(%5) {axes: [1], keep: false}
  )",
        R"(
    %5 f32 (4, 2) at 1:0 = map(%1) [-x0]
  )");
}
