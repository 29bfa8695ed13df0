// Which large values are computed in chunks of rows, and what the program is then.
#include "engine/program/chunk_rows.hpp"

#include <algorithm>

#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

constexpr ChunkLimits kHalf{96, 2};  // half of the logits below

constexpr const char* kInputs = R"(
  %1 f32 (8, 4) at 0:0 = persistent "x"
  %2 f32 (6, 4) at 1:0 grad = persistent "w"
  %3 i32 (8) at 0:128 = persistent "label"
  %4 f32 (8) at 0:160 = persistent "weight"
)";
// Of a pipeline of two stages: the loss, its region, is made in the second.
constexpr const char* kLossBehindBody = R"(
    %11 f32 (4, 4) at 4:0 grad = persistent "v"
    %10 f32 (8, 4) grad = matmul(%1, %11) @body
    %5 f32 (8, 6) grad = matmul(%10, %2) {transpose_b: true} @head stage 1
    %6 f32 (8) grad, %7 f32 (8) grad = cross_entropy(%5, %3) @loss stage 1
    %8 f32 (8) grad = map(%6, %4) [x0 * x1] @loss stage 1
    %9 f32 () grad = reduce(%8) {axes: [0], keep: false} @loss stage 1
  )";
constexpr const char* kLogits = R"(
  %5 f32 (8, 6) grad = matmul(%1, %2) {transpose_b: true} @head
)";
constexpr const char* kLoss = R"(
  %6 f32 (8) grad, %7 f32 (8) grad = cross_entropy(%5, %3) @loss
  %8 f32 (8) grad = map(%6, %4) [x0 * x1] @loss
  %9 f32 () grad = reduce(%8) {axes: [0], keep: false} @loss
)";

struct Fixture : TextFixture {
  int chunk(const ChunkLimits& limits, std::vector<ValueId> needed) {
    const int n = chunk_rows(g, limits, needed);
    CHECK_FALSE(find_fault(g));
    for (const ValueId v : needed) CHECK((g.value(v).producer >= 0 || v == 0));
    return n;
  }
  uint64_t largest() const {
    uint64_t most = 0;
    for (const Op& op : g.ops())
      for (const ValueId v : op.out) most = std::max(most, bytes(g.shape(v)));
    return most;
  }
  ptrdiff_t count(const std::string& name) const {
    return std::count_if(g.ops().begin(), g.ops().end(),
                         [&](const Op& op) { return op.name == name; });
  }
  void stays(const std::string& lines, const ChunkLimits& limits,
             const std::vector<ValueId>& needed) {
    read(lines);
    CHECK(chunk(limits, needed) == 0);
    expect(lines);
  }
};

}  // namespace

TEST_CASE_FIXTURE(Fixture, "a loss over logits: two chunks, whose losses are joined") {
  read(std::string(kInputs) + kLogits + kLoss);
  CHECK(chunk(kHalf, {9}) == 1);
  expect(std::string(kInputs) + R"(
    %10 f32 (4, 4) = slice(%1) {stop: 4} @head
    %11 f32 (4, 6) grad = matmul(%10, %2) {transpose_b: true} @head
    %12 i32 (4) = slice(%3) {stop: 4} @loss
    %13 f32 (4) grad, %14 f32 (4) grad = cross_entropy(%11, %12) @loss
    %15 f32 (4, 4) = slice(%1) {start: 4, stop: 8} @head
    %16 f32 (4, 6) grad = matmul(%15, %2) {transpose_b: true} @head
    %17 i32 (4) = slice(%3) {start: 4, stop: 8} @loss
    %18 f32 (4) grad, %19 f32 (4) grad = cross_entropy(%16, %17) @loss
    %6 f32 (8) grad = concat(%13, %18) @loss
    %8 f32 (8) grad = map(%6, %4) [x0 * x1] @loss
    %9 f32 () grad = reduce(%8) {axes: [0], keep: false} @loss
  )");
}

TEST_CASE_FIXTURE(Fixture, "with its gradient: the weight's is added up, the input's joined") {
  read(std::string(R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (6, 2) at 1:0 grad = persistent "w"
    %3 i32 (8) at 0:128 = persistent "label"
    %4 f32 (8) at 0:160 = persistent "weight"
    %10 f32 (4, 2) at 1:48 grad = persistent "v"
    %11 f32 (8, 2) grad = matmul(%1, %10) @body
    %5 f32 (8, 6) grad = matmul(%11, %2) {transpose_b: true} @head
  )") + kLoss);
  const std::vector<ValueId> d = differentiate(g, 9, {2, 10});
  CHECK(chunk(kHalf, {9, d[0], d[1]}) == 1);
  CHECK(largest() == kHalf.bytes);
  CHECK(count("matmul") == 1 + 3 * 2 + 1);
  CHECK(count("cross_entropy") == 2);
  CHECK(count("cross_entropy_grad") == 2);
  // The region is part of the forward pass, and nothing of the forward pass comes behind it.
  bool backward = false;
  for (const Op& op : g.ops()) {
    CHECK((op.backward || !backward));
    backward = op.backward;
    if (op.name == "cross_entropy_grad") CHECK_FALSE(op.backward);
  }
  // One chunk after the other: all of the first one is done when the second begins.
  std::vector<std::string> names;
  for (const Op& op : g.ops())
    if (!op.def->is_map && op.name != "slice" && op.name != "reduce" && op.name != "reshape")
      names.push_back(op.name);
  const std::vector<std::string> chunk{"matmul", "cross_entropy", "cross_entropy_grad", "matmul",
                                       "matmul"};
  REQUIRE(names.size() > 11);
  CHECK(std::vector<std::string>(names.begin() + 1, names.begin() + 6) == chunk);
  CHECK(std::vector<std::string>(names.begin() + 6, names.begin() + 11) == chunk);
}

TEST_CASE_FIXTURE(Fixture, "a large weight does not stand in the way, tied to a table or not") {
  for (const bool tied : {false, true}) {
    read(std::string(R"(
      %1 f32 (4, 4) at 0:0 = persistent "x"
      %2 f32 (30, 3) at 1:0 grad = persistent "w"
      %3 i32 (4) at 0:64 = persistent "label"
      %4 f32 (4) at 0:80 = persistent "weight"
      %10 f32 (4, 3) at 1:360 grad = persistent "v"
      %11 f32 (4, 3) grad = )") +
         (tied ? "gather(%2, %3) @body" : "matmul(%1, %10) @body") + R"(
      %5 f32 (4, 30) grad = matmul(%11, %2) {transpose_b: true} @head
      %6 f32 (4) grad, %7 f32 (4) grad = cross_entropy(%5, %3) @loss
      %8 f32 (4) grad = map(%6, %4) [x0 * x1] @loss
      %9 f32 () grad = reduce(%8) {axes: [0], keep: false} @loss
    )");
    const std::vector<ValueId> d = differentiate(g, 9, {2});
    CHECK(chunk({240, 2}, {9, d[0]}) == 1);
    CHECK(count("cross_entropy_grad") == 2);
    CHECK(g.shape(d[0]).dims[0] == 30);
  }
}

TEST_CASE_FIXTURE(Fixture, "no chunks: small enough, too few rows, wanted whole, read by others") {
  const std::string all = std::string(kInputs) + kLogits + kLoss;
  stays(all, {192, 2}, {9});
  stays(all, {96, 8}, {9});
  stays(all, kHalf, {9, 5});
  // Other rows of the logits are read elsewhere: they would be joined again, beside the losses.
  stays(std::string(kInputs) + kLogits + R"(
    %6 f32 (8) grad, %7 f32 (8) grad = cross_entropy(%5, %3) @loss
    %8 f32 (16, 3) grad = reshape(%5) {shape: [16, 3]}
    %9 f32 (16) grad = reduce(%8) {axes: [1], keep: false}
  )",
        kHalf, {6, 9});
  // A softmax over the rows needs all of them.
  stays(std::string(kInputs) + kLogits + R"(
    %6 f32 (6, 8) grad = transpose(%5) {perm: [1, 0]}
    %7 f32 (6, 8) grad = softmax(%6)
    %8 f32 () grad = reduce(%7) {axes: [0, 1], keep: false}
  )",
        kHalf, {8});
}

// Chunks are added up: the greatest of each would be added, and a bias once for each chunk.
TEST_CASE_FIXTURE(Fixture, "no chunks where what they make is no sum over them") {
  stays(std::string(kInputs) + kLogits + R"(
    %6 f32 (6) grad = reduce(%5) {kind: "max", axes: [0], keep: false}
  )",
        kHalf, {6});
  stays(std::string(kInputs) + R"(
    %6 f32 (4) at 0:192 = persistent "bias"
  )" + kLogits +
            R"(
    %7 f32 (6, 4) grad = matmul(%5, %1, %6) {transpose_a: true, bias: true}
  )",
        kHalf, {7});
}

TEST_CASE_FIXTURE(Fixture, "no chunks where an op says that its result is whole in each of them") {
  plugin::Extensions extensions;
  plugin::Host host{registry, log, extensions, "acme"};
  plait_op_item item{};
  item.struct_size = sizeof item;
  item.name = "acme.columns";
  item.n_outputs = 1;
  item.infer = [](const plait_host*, const plait_op_desc* desc, plait_shape* outputs) {
    outputs[0] = make_shape(PLAIT_F32, {desc->inputs[0].dims[1]});
    return static_cast<plait_error*>(nullptr);
  };
  item.shard = [](plait_shard_use* use) {
    use->inputs[0] = use->have[0];
    use->outputs[0] = {PLAIT_PLACE_REPLICATE, -1, 0, 0};
    return uint32_t{1};
  };
  host.begin_open();
  plait_error* e = host.add(&host, PLAIT_KIND_OP, &item);
  REQUIRE(e == nullptr);
  host.end_open();
  stays(std::string(kInputs) + kLogits + R"(
    %6 f32 (6) grad = acme.columns(%5)
  )",
        kHalf, {6});
}

TEST_CASE_FIXTURE(Fixture, "a region of the backward pass stays in it, also in a pipeline") {
  for (const std::string stage : {"", " stage 1"}) {
    read(R"(
      %1 f32 (8, 4) at 0:0 = persistent "x"
      %2 f32 (6, 4) at 1:0 grad = persistent "w"
      %3 f32 (8, 4) = map(%1) [tanh(x0)]
      %4 f32 (8, 4) = map(%3) [exp(x0)] backward
      %5 f32 (8, 6) = matmul(%4, %2) {transpose_b: true} @head)" +
         stage + R"( backward
      %6 f32 (8) at 3:0 = reduce(%5) {axes: [1], keep: false} @head)" +
         stage + R"( backward
    )");
    CHECK(chunk({128, 2}, {6}) == 1);
    for (const Op& op : g.ops()) CHECK((op.backward || op.out[0] == 3));
  }
}

// The loss moves to the backward pass, and with it what reads it.
TEST_CASE_FIXTURE(Fixture, "in a pipeline: a loss with its gradient, in the backward pass") {
  const std::string lines = std::string(kInputs) + kLossBehindBody;
  ChunkLimits logits{128, 2};  // not the hidden rows
  const auto differentiated = [&] {
    read(lines);
    return differentiate(g, 9, {2, 11});
  };
  std::vector<ValueId> d = differentiated();
  CHECK(chunk(logits, {9, d[0], d[1]}) == 1);
  CHECK(largest() <= 128);
  const auto& ops = g.ops();
  bool backward = false;
  for (const Op& op : ops) {  // the backward pass is behind the forward pass
    CHECK((op.backward || !backward));
    backward = op.backward;
    CHECK(op.backward == (op.stage == 1 || op.out[0] != 10));
    // No program of gradients alone, which runs later, has a part of the region.
    if (op.name == "cross_entropy" || op.out[0] == 9 || op.out[0] == d[0]) CHECK(op.not_deferred);
    if (op.out[0] == d[1] || op.out[0] == 10) CHECK_FALSE(op.not_deferred);
  }
  const auto made_in = [&](ValueId v) { return ops[static_cast<size_t>(g.value(v).producer)]; };
  CHECK(made_in(9).backward);
  CHECK(made_in(9).stage == 1);
  CHECK(made_in(d[1]).stage == 0);
  // Without a gradient it stays in the forward pass.
  read(lines);
  CHECK(chunk(logits, {9}) == 1);
  for (const Op& op : g.ops()) CHECK_FALSE(op.backward);
}

TEST_CASE_FIXTURE(Fixture, "what a region does not need stays on its side of it") {
  // A forward op in front of a forward region.
  const std::string early = "%10 f32 (8) at 3:0 = map(%4) [exp(x0)] @early\n";
  read(std::string(kInputs) + early + kLogits + kLoss);
  CHECK(chunk(kHalf, {9, 10}) == 1);
  CHECK(g.ops().front().scope == "early");
  // A forward op behind the forward part of a region, which moves to the backward pass.
  const std::string late = "%12 f32 (8) at 3:0 = map(%4) [exp(x0)] @late stage 1\n";
  read(std::string(kInputs) + kLossBehindBody + late);
  const std::vector<ValueId> d = differentiate(g, 9, {2, 11});
  CHECK(chunk({128, 2}, {9, 12, d[0], d[1]}) == 1);
  std::vector<std::string> forward;
  for (const Op& op : g.ops())
    if (!op.backward) forward.push_back(op.scope);
  CHECK(forward == std::vector<std::string>{"body", "late"});
  CHECK_FALSE(g.ops()[1].backward);
}

TEST_CASE_FIXTURE(Fixture, "no chunks where a sum over all rows comes back to them") {
  stays(std::string(kInputs) + kLogits + R"(
    %6 f32 (1, 6) grad = reduce(%5) {axes: [0]}
    %7 f32 (1, 6) grad = map(%6) [x0 * 0.125]
    %8 f32 (8, 6) grad = map(%5, %7) [x0 - x1]
    %9 f32 () grad = reduce(%8) {kind: "sum_squares", axes: [0, 1], keep: false}
  )",
        kHalf, {9});
}

TEST_CASE_FIXTURE(Fixture, "as many chunks as are needed, along the first dimension") {
  read(R"(
    %1 f32 (2, 6, 4) at 0:0 = persistent "x"
    %2 f32 (6, 4) at 1:0 grad = persistent "w"
    %3 f32 (2, 6, 6) grad = matmul(%1, %2) {transpose_b: true}
    %4 f32 (2, 6) grad = reduce(%3) {axes: [2], keep: false}
    %5 f32 (2, 6) at 3:0 = map(%4) [exp(x0)]
  )");
  CHECK(chunk({144, 2}, {}) == 1);
  CHECK(count("matmul") == 2);
  read(R"(
    %1 f32 (1, 12, 4) at 0:0 = persistent "x"
    %2 f32 (6, 4) at 1:0 grad = persistent "w"
    %3 f32 (1, 12, 6) grad = matmul(%1, %2) {transpose_b: true}
    %4 f32 (1, 12) grad = reduce(%3) {axes: [2], keep: false}
    %5 f32 (1, 12) at 3:0 = map(%4) [exp(x0)]
  )");
  CHECK(chunk({100, 3}, {}) == 1);
  CHECK(count("matmul") == 3);
}
