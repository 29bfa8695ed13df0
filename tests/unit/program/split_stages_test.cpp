// Which stage program an op belongs to, what stages send, and what the copies look like.
#include "engine/program/split_stages.hpp"

#include "engine/base/error.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

using Values = std::vector<ValueId>;

struct Fixture : TextFixture {
  // A stage program of its own, in which what comes from elsewhere is "import %N".
  std::unique_ptr<Graph> copy(const StagePartition& partition, const StageProgram& program) {
    auto to = std::make_unique<Graph>(&ops);
    std::map<ValueId, ValueId> made;
    const ImportValue import = [&](Graph& into, ValueId v) {
      return into.persistent("import %" + std::to_string(v), g.shape(v), {9, 64 * v});
    };
    copy_stage_program(g, partition, program, import, *to, made);
    return to;
  }
  static void expect_copy(const Graph& copy, const std::string& lines) {
    const std::string diff =
        line_diff("program \"\" f32 {\n" + lines + "\n}", program::print(copy));
    if (!diff.empty()) FAIL_CHECK("the stage program is not what is expected:\n" << diff);
    CHECK_FALSE(find_fault(copy));
  }
};

// Three stages; %3 is read two stages later, too. The weights' gradients are %12, %10, %8.
constexpr const char* kThree = R"(
  %1 f32 (4, 4) at 0:0 = persistent "x"
  %2 f32 (4, 4) at 1:0 grad = persistent "w"
  %3 f32 (4, 4) grad = matmul(%1, %2) @a
  %4 f32 (4, 4) grad = matmul(%3, %2) @b stage 1
  %5 f32 (4, 4) grad = map(%4, %3) [x0 + x1] @c stage 2
  %6 f32 () = map() [2.0] @c stage 2 backward
  %7 f32 (4, 4) = map(%5, %6) [x0 * x1] @c stage 2 backward
  %8 f32 (4, 4) = matmul(%3, %7) {transpose_a: true} @b stage 1 backward
  %9 f32 (4, 4) = matmul(%7, %2) {transpose_b: true} @b stage 1 backward
  %10 f32 (4, 4) = map(%9, %7) [x0 + x1] @a backward
  %11 f32 (4, 4) = matmul(%1, %10) {transpose_a: true} @a backward
)";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "ops are split by stage and phase, values travel from stage to stage") {
  read(kThree);
  const StagePartition p(g, 3, false, {{8, 1}, {11, 0}});
  CHECK(p.of(0) == StageProgram{0, Phase::kForward});
  CHECK(p.of(2) == StageProgram{2, Phase::kForward});
  CHECK(p.of(8) == StageProgram{0, Phase::kBackward});
  CHECK(p.recv({0, Phase::kForward}).empty());
  CHECK(p.recv({1, Phase::kForward}) == Values{3});
  CHECK(p.recv({2, Phase::kForward}) == Values{3, 4});  // %3 is handed on
  CHECK(p.send({1, Phase::kForward}) == Values{3, 4});
  CHECK(p.recv({1, Phase::kBackward}) == Values{7});
  CHECK(p.recv({0, Phase::kBackward}) == Values{7, 9});
  CHECK(p.send({0, Phase::kBackward}).empty());
  CHECK(p.saved(0) == Values{3, 7, 9});
  CHECK(p.saved(2) == Values{3, 4, 5, 7});
  CHECK(p.program_of_live_out(8, 1) == StageProgram{1, Phase::kBackward});
  CHECK(p.program_of_live_out(8, 0) == StageProgram{0, Phase::kBackward});
}

TEST_CASE_FIXTURE(Fixture,
                  "with split weights the backward pass keeps what an earlier stage reads") {
  read(kThree);
  const StagePartition p(g, 3, true, {{8, 1}, {11, 0}});
  CHECK(p.of(4) == StageProgram{2, Phase::kBackward});        // %7 is sent
  CHECK(p.of(5) == StageProgram{1, Phase::kBackwardWeight});  // %8 is a weight's
  CHECK(p.of(6) == StageProgram{1, Phase::kBackward});        // %9 is sent
  CHECK(p.of(8) == StageProgram{0, Phase::kBackwardWeight});
  CHECK(p.send({1, Phase::kBackwardWeight}).empty());
}

TEST_CASE_FIXTURE(Fixture, "what is not deferred stays in the backward pass, with what it reads") {
  read(R"(
    %1 f32 (4, 4) at 0:0 = persistent "x"
    %2 f32 (4, 4) = map(%1) [exp(x0)] backward
    %3 f32 (4, 4) = map(%2) [tanh(x0)] backward not_deferred
    %4 f32 (4, 4) = map(%3) [-x0] backward
    %5 f32 (4, 4) = map(%1) [-x0] backward
  )");
  const StagePartition p(g, 1, true, {{4, 0}, {5, 0}});
  CHECK(p.of(0) == StageProgram{0, Phase::kBackward});
  CHECK(p.of(1) == StageProgram{0, Phase::kBackward});
  CHECK(p.of(2) == StageProgram{0, Phase::kBackwardWeight});
  CHECK(p.of(3) == StageProgram{0, Phase::kBackwardWeight});
  CHECK(p.saved(0) == Values{3});
}

TEST_CASE_FIXTURE(Fixture, "a stage program is a copy with its own inputs and constants") {
  read(kThree);
  const StagePartition p(g, 3, false, {{8, 1}, {11, 0}});
  expect_copy(*copy(p, {1, Phase::kBackward}), R"(
    %1 f32 (4, 4) at 9:192 = persistent "import %3"
    %2 f32 (4, 4) at 9:448 = persistent "import %7"
    %4 f32 (4, 4) at 9:128 = persistent "import %2"
    %3 f32 (4, 4) = matmul(%1, %2) {transpose_a: true} @b stage 1 backward
    %5 f32 (4, 4) = matmul(%2, %4) {transpose_b: true} @b stage 1 backward
  )");
  expect_copy(*copy(p, {2, Phase::kBackward}), R"(
    %2 f32 (4, 4) at 9:320 = persistent "import %5"
    %1 f32 () = map() [2.0] @c stage 2 backward
    %3 f32 (4, 4) = map(%2, %1) [x0 * x1] @c stage 2 backward
  )");
}

TEST_CASE_FIXTURE(Fixture, "constants are made wherever they are read, and never sent") {
  read(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 () = map() [2.0]
    %3 f32 (1) = reshape(%2) {shape: [1]}
    %4 f32 (4) = map(%1, %2) [x0 * x1]
    %5 f32 (4) = map(%4, %3) [x0 + x1] stage 1
  )");
  const StagePartition p(g, 2, false, {{5, 1}});
  CHECK(p.recv({1, Phase::kForward}) == Values{4});
  expect_copy(*copy(p, {1, Phase::kForward}), R"(
    %1 f32 (4) at 9:256 = persistent "import %4"
    %2 f32 () = map() [2.0] stage 1
    %3 f32 (1) = reshape(%2) {shape: [1]} stage 1
    %4 f32 (4) = map(%1, %3) [x0 + x1] stage 1
  )");
}

TEST_CASE_FIXTURE(Fixture, "what a stage program sends is what is asked for value by value") {
  read(kThree);
  for (const bool split : {false, true}) {
    const StagePartition p(g, 3, split, {{8, 1}, {11, 0}});
    size_t sent = 0;
    for (int32_t stage = 0; stage < 3; ++stage)
      for (const Phase phase : {Phase::kForward, Phase::kBackward, Phase::kBackwardWeight}) {
        CAPTURE(stage);
        Values asked;
        for (ValueId v = 1; v < g.n_values(); ++v)
          if (p.sends({stage, phase}, v)) asked.push_back(v);
        CHECK(asked == p.send({stage, phase}));
        sent += asked.size();
      }
    CHECK(sent == 6);  // %3 and %7 twice, %4 and %9 once
  }
}

TEST_CASE_FIXTURE(Fixture, "what is written behind a stage program is not part of its pass") {
  read(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) = map(%1) [exp(x0)] backward not_deferred
  )");
  const StagePartition p(g, 1, true, {{2, 0}});
  const std::unique_ptr<Graph> to = copy(p, {0, Phase::kBackward});
  CHECK(to->ops().at(0).backward);
  CHECK(to->ops()[0].not_deferred);
  to->apply1("neg", {1});
  CHECK_FALSE(to->ops().at(1).backward);
  CHECK_FALSE(to->ops()[1].not_deferred);
}

TEST_CASE_FIXTURE(Fixture, "a value cannot go back, nor a gradient forward") {
  read(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) = map(%1) [exp(x0)] @late stage 1
    %3 f32 (4) = map(%2) [-x0] @early
  )");
  CHECK_THROWS_WITH_AS(StagePartition(g, 2, false, {}),
                       "[program] a value of late in stage 1 is read in stage 0, where it cannot "
                       "come to",
                       Error);
}

TEST_CASE_FIXTURE(Fixture, "each stage that reads a parameter gets a value of its own") {
  read(kThree);
  const auto uses = split_parameter_uses(g, {2});
  CHECK(uses.size() == 2);
  CHECK(uses.at({2, 0}) == 2);
  const ValueId own = uses.at({2, 1});
  CHECK(own == 12);
  CHECK(g.ops()[1].in == Values{3, own});
  CHECK(g.ops()[6].in == Values{7, own});
  CHECK(g.value(own).requires_grad);
  CHECK(g.value(own).buffer == BufferRef{1, 0});
  CHECK_FALSE(find_fault(g));
}

TEST_CASE_FIXTURE(Fixture,
                  "a parameter of one stage, and one that nobody reads, stay as they are") {
  const char* lines = R"(
    %1 f32 (4) at 0:0 = persistent "w"
    %2 f32 (4) at 0:64 = persistent "unread"
    %3 f32 (4) = map(%1) [exp(x0)] stage 1
    %4 f32 (4) = map(%1, %3) [x0 + x1] stage 1
  )";
  read(lines);
  const auto uses = split_parameter_uses(g, {1, 2});
  CHECK(uses == std::map<std::pair<ValueId, int32_t>, ValueId>{{{1, 1}, 1}, {{2, 0}, 2}});
  expect(lines);
}
