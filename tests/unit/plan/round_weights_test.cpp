// Weights of 16 bits: how a shard of a bucket is cut into pieces, which elements of the global
// tensor a piece has, and how it is rounded where a step is finite.
#include "engine/plan/round_weights.hpp"

#include "engine/plan/tensor_update.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::plan;

namespace {

Parameter parameter(const program::Dims& dims, int64_t flat_offset = 0) {
  Parameter p;
  p.name = "model.fc.weight";
  p.shape = program::make_shape(PLAIT_BF16, dims);
  p.box = topology::full_box(dims);
  p.stored_elements = program::elements(p.shape);
  p.flat_offset = flat_offset;
  return p;
}

struct Fixture : program::TextFixture {
  // A weight (4, 6), what an optimizer made of it, and what rounds it in step %4.
  void update(const Parameter& p, int64_t begin) {
    read(kInputs);
    PlanDraft plan;
    plan.experiment.run.seed = 7;
    const RoundedElements which{&p, begin, 4};
    CHECK(assign_if_finite(g, 3, {{1, 2}}, 0, &plan, &which) == 7);
    CHECK_FALSE(program::find_fault(g));
  }
  static constexpr const char* kInputs = R"(
    %1 bf16 (4, 6) at 0:0 = persistent "model.fc.weight"
    %2 f32 (4, 6) at 1:0 = persistent "made of it"
    %3 f32 () at 2:0 = persistent "finite"
    %4 f64 () at 3:0 = persistent "step"
    )";
  static constexpr const char* kSelect = R"(
    %5 f32 (4, 6) = map(%1) [copy(x0)]
    %6 f32 (4, 6) = map(%3, %2, %5) [select(x0, x1, x2)]
    )";
  static constexpr const char* kRounded =
      "%7 bf16 (4, 6) in %1 = round_stochastic(%6, %4) {seed: 7, stream: 171940026385119113";
};

}  // namespace

TEST_CASE("a shard of a bucket is cut between parameters, and where one is large") {
  constexpr int64_t kMost = 1 << 20;
  const Parameter small = parameter({10, 10}), large = parameter({kMost + 50, 1}, 128);
  Bucket bucket;
  bucket.shard_elements = bucket.elements = 128 + kMost + 64;
  const auto whole = pieces_of(bucket, {&small, &large});
  REQUIRE(whole.size() == 3);
  CHECK(whole[0].own.shard_elements == 100);
  CHECK(whole[1].own.shard_elements == kMost);
  CHECK(whole[2].own.shard_elements == 50);
  CHECK(whole[2].elements.parameter == &large);
  CHECK(whole[2].elements.begin == kMost);
  CHECK(whole[2].offset == 128 + kMost);

  // Another replica's: it begins within a parameter and ends within the next.
  bucket.shard_begin = 60;
  bucket.shard_elements = 100;
  bucket.state_begin = 1000;
  const auto part = pieces_of(bucket, {&small, &large});
  REQUIRE(part.size() == 2);
  CHECK(part[0].own.shard_elements == 40);
  CHECK(part[0].elements.begin == 60);
  CHECK(part[0].offset == 0);
  CHECK(part[0].own.state_begin == 1000);
  CHECK(part[1].own.shard_elements == 32);
  CHECK(part[1].elements.begin == 0);
  CHECK(part[1].offset == 68);
  CHECK(part[1].own.state_begin == 1068);

  // One that has nothing but what is between the two.
  bucket.shard_begin = 104;
  bucket.shard_elements = 20;
  CHECK(pieces_of(bucket, {&small, &large}).empty());
}

TEST_CASE_FIXTURE(Fixture, "a weight is chosen in f32, and rounded to where it lies") {
  update(parameter({4, 6}), 0);
  expect(std::string(kInputs) + kSelect + kRounded + "}");
}

TEST_CASE_FIXTURE(Fixture, "a shard is rounded as those elements of the whole tensor") {
  Parameter rows = parameter({8, 6});
  rows.sharded = true;
  rows.shard_dim = 0;
  rows.box = {{4, 0}, {4, 6}};
  update(rows, 0);
  expect(std::string(kInputs) + kSelect + kRounded + ", first: 24}");
  Parameter columns = parameter({4, 18});
  columns.sharded = true;
  columns.shard_dim = 1;
  columns.box = {{0, 12}, {4, 6}};
  update(columns, 3);
  expect(std::string(kInputs) + kSelect + kRounded + ", first: 12, run: 6, stride: 18, begin: 3}");
}

TEST_CASE_FIXTURE(Fixture,
                  "a state of 16 bits has numbers of its own, and comes behind the others") {
  const std::string inputs = std::string(kInputs) + R"(
    %5 f32 (4, 6) at 4:0 = persistent "model.fc.weight, f32"
    %6 f32 (4, 6) at 5:0 = persistent "the average made of it"
    )";
  Parameter p = parameter({4, 18});
  p.sharded = true;
  p.shard_dim = 1;
  p.box = {{0, 12}, {4, 6}};
  const char* const chosen = R"(
    %7 f32 (4, 6) = map(%1) [copy(x0)]
    %8 f32 (4, 6) = map(%3, %6, %7) [select(x0, x1, x2)]
    %9 f32 (4, 6) = map(%3, %2, %5) [select(x0, x1, x2)]
    %10 f32 (4, 6) in %5 = map(%9) [copy(x0)]
    )";
  PlanDraft plan;
  plan.experiment.run.seed = 7;
  const RoundedElements which{&p, 3, 4};
  for (const bool replicated : {false, true}) {
    read(inputs);
    assign_if_finite(g, 3, {{1, 6, {"m", replicated}}, {5, 2}}, 0, &plan, &which);
    expect(
        inputs + chosen +
        "%11 bf16 (4, 6) in %1 = round_stochastic(%8, %4) {seed: 7, stream: 5492499680664595605" +
        (replicated ? "" : ", first: 12, run: 6, stride: 18") + ", begin: 3}");
  }
}
