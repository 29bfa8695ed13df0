// What is made again in the backward pass, and from what.
#include "engine/program/recompute.hpp"

#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : TextFixture {
  void recomputes(const std::string& lines, const std::vector<ValueId>& dropped, bool within_layers,
                  const std::string& after) {
    read(lines);
    recompute(g, dropped, within_layers);
    expect(after);
    CHECK_FALSE(find_fault(g));
  }
  std::vector<ValueId> candidates() const {
    std::vector<ValueId> all;
    for (const SavedValue& s : saved_values(g)) all.push_back(s.value);
    return all;
  }
};

// Two layers; the backward pass reads %3 and %4 of the first, %5 of the second.
constexpr const char* kForward = R"(
  %1 f32 (4, 4) at 0:0 = persistent "x"
  %2 f32 (4, 4) at 1:0 = persistent "w"
  %3 f32 (4, 4) = matmul(%1, %2) @a
  %4 f32 (4, 4) = map(%3) [exp(x0)] @a
  %5 f32 (4, 4) = matmul(%4, %2) @b
)";
constexpr const char* kBackward = R"(
  %6 f32 (4, 4) = map(%5) [-x0] @b backward
  %7 f32 (4, 4) = map(%6, %4) [x0 * x1] @a backward
  %8 f32 (4, 4) at 2:0 = map(%7, %3) [x0 * x1] @a backward
)";

const std::string kBoth = std::string(kForward) + kBackward;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "saved values are what the backward pass reads of the forward pass") {
  read(kBoth);
  const std::vector<SavedValue> saved = saved_values(g);
  REQUIRE(saved.size() == 3);
  CHECK(candidates() == std::vector<ValueId>{3, 4, 5});
  CHECK(saved[0].bytes == 64);
  CHECK(saved[0].flops == 2 * 4 * 16);
  CHECK(saved[0].layer_local);
  CHECK(saved[1].flops == 16);  // from %3, which is saved as well
  CHECK_FALSE(saved[1].layer_local);
  CHECK(saved[2].layer_local);
}

TEST_CASE_FIXTURE(Fixture, "a value is made again before its first reader, from what is kept") {
  recomputes(kBoth, {4}, false, std::string(kForward) + R"(
    %6 f32 (4, 4) = map(%5) [-x0] @b backward
    %9 f32 (4, 4) = map(%3) [exp(x0)] @a backward
    %7 f32 (4, 4) = map(%6, %9) [x0 * x1] @a backward
    %8 f32 (4, 4) at 2:0 = map(%7, %3) [x0 * x1] @a backward
  )");
}

TEST_CASE_FIXTURE(Fixture, "with all dropped, everything is made again from the inputs, once") {
  recomputes(kBoth, {3, 4, 5}, false, std::string(kForward) + R"(
    %9 f32 (4, 4) = matmul(%1, %2) @a backward
    %10 f32 (4, 4) = map(%9) [exp(x0)] @a backward
    %11 f32 (4, 4) = matmul(%10, %2) @b backward
    %6 f32 (4, 4) = map(%11) [-x0] @b backward
    %7 f32 (4, 4) = map(%6, %10) [x0 * x1] @a backward
    %8 f32 (4, 4) at 2:0 = map(%7, %9) [x0 * x1] @a backward
  )");
}

TEST_CASE_FIXTURE(Fixture, "within layers the outputs of other layers are kept") {
  recomputes(kBoth, {3, 5}, true, std::string(kForward) + R"(
    %9 f32 (4, 4) = matmul(%4, %2) @b backward
    %6 f32 (4, 4) = map(%9) [-x0] @b backward
    %7 f32 (4, 4) = map(%6, %4) [x0 * x1] @a backward
    %10 f32 (4, 4) = matmul(%1, %2) @a backward
    %8 f32 (4, 4) at 2:0 = map(%7, %10) [x0 * x1] @a backward
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "a named block counts as one layer, blocks beside and around it as others") {
  const auto lines = [](const std::string& end) {
    return R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) = map(%1) [exp(x0)] @model.embed
    %3 f32 (4) = map(%2) [-x0] @model.h0.norm
    %4 f32 (4) = map(%3) [exp(x0)] @model.h0.mlp
    %5 f32 (4) = map(%4) [-x0] @model.h1.norm
)" + end;
  };
  read(lines(R"(
    %6 f32 (4) = map(%5, %4) [x0 * x1] @model.h1.norm backward
    %7 f32 (4) at 2:0 = map(%6, %3, %2) [x0 * x1 * x2] @model.h0.norm backward
  )"));
  std::vector<ValueId> inside;
  for (const SavedValue& s : saved_values(g))
    if (s.layer_local) inside.push_back(s.value);
  CHECK(inside == std::vector<ValueId>{3, 5});
  recomputes(lines(R"(
    %6 f32 (4) = map(%5, %4) [x0 * x1] @model.h1.norm backward
    %7 f32 (4) at 2:0 = map(%6, %3, %2) [x0 * x1 * x2] @model.h0.norm backward
  )"),
             inside, true, lines(R"(
    %8 f32 (4) = map(%4) [-x0] @model.h1.norm backward
    %6 f32 (4) = map(%8, %4) [x0 * x1] @model.h1.norm backward
    %9 f32 (4) = map(%2) [-x0] @model.h0.norm backward
    %7 f32 (4) at 2:0 = map(%6, %9, %2) [x0 * x1 * x2] @model.h0.norm backward
  )"));
}

TEST_CASE_FIXTURE(Fixture, "nothing dropped, nothing done") { recomputes(kBoth, {}, false, kBoth); }

TEST_CASE_FIXTURE(Fixture, "what came from another rank cannot be made again") {
  const std::string lines = R"(
    %1 f32 (4) = collective_start() {kind: 8, ranks: 2, id: 0, shape: [4]}
    %2 f32 (4) in %1 = collective_done(%1) {id: 0}
    %3 f32 (4) = map(%2) [exp(x0)] @a
    %4 f32 (4) at 2:0 = map(%3, %2) [x0 * x1] @a backward
  )";
  read(lines);
  CHECK(candidates() == std::vector<ValueId>{3});
  recomputes(lines, {3}, false, R"(
    %1 f32 (4) = collective_start() {kind: 8, ranks: 2, id: 0, shape: [4]}
    %2 f32 (4) in %1 = collective_done(%1) {id: 0}
    %3 f32 (4) = map(%2) [exp(x0)] @a
    %5 f32 (4) = map(%2) [exp(x0)] @a backward
    %4 f32 (4) at 2:0 = map(%5, %2) [x0 * x1] @a backward
  )");
}

TEST_CASE_FIXTURE(Fixture, "a stage makes nothing of another stage again") {
  const std::string lines = R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) = map(%1) [exp(x0)] @a
    %3 f32 (4) = map(%2) [-x0] @b stage 1
    %4 f32 (4) at 2:0 = map(%3, %2) [x0 * x1] @b stage 1 backward
  )";
  recomputes(lines, {2, 3}, false, R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) = map(%1) [exp(x0)] @a
    %3 f32 (4) = map(%2) [-x0] @b stage 1
    %5 f32 (4) = map(%2) [-x0] @b stage 1 backward
    %4 f32 (4) at 2:0 = map(%5, %2) [x0 * x1] @b stage 1 backward
  )");
}

TEST_CASE_FIXTURE(Fixture, "a chain as long as a very deep stage is made again, op by op") {
  constexpr size_t kDepth = 100000;
  const ValueId x = in({4});
  ValueId v = x;
  std::vector<ValueId> dropped;
  for (size_t i = 0; i < kDepth; ++i) {
    // Equal ops on equal values exist once, so each reads the one before.
    v = g.apply1("exp", {v});
    dropped.push_back(v);
  }
  g.backward = true;
  const ValueId gradient = g.apply1("neg", {v});
  g.backward = false;
  const auto maker = [&](ValueId of) { return g.ops()[static_cast<size_t>(g.value(of).producer)]; };
  recompute(g, dropped, false);
  CHECK(g.ops().size() == 2 * kDepth + 1);
  // Its input is the last of the copies, and the first copy reads what was kept.
  ValueId at = maker(gradient).in[0];
  CHECK(at != v);
  size_t copies = 0;
  for (; at != x; at = maker(at).in[0]) copies += maker(at).backward ? 1 : 0;
  CHECK(copies == kDepth);
}
