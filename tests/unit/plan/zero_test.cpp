// ZeRO stages 2 and 3 as rewrites of small programs: two replicas, two buckets of 16 elements.
#include "engine/plan/zero.hpp"

#include "engine/program/passes.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::plan;
using program::ValueId;

namespace {

struct Fixture : program::TextFixture {
  PlanDraft plan;

  Fixture() {
    plan.grid = topology::Grid(1, 2, 1);
    ParameterGroup group;
    group.name = "model.default";
    group.parameters = {4, PLAIT_F32, 16};
    group.gradients = {5, PLAIT_F32, 16};
    for (int64_t i = 0; i < 2; ++i) {
      Bucket bucket;
      bucket.begin = 16 * i;
      bucket.elements = 16;
      bucket.shard_elements = 8;
      bucket.state_begin = 8 * i;
      group.buckets.push_back(bucket);
    }
    plan.groups.push_back(group);
    // A bucket's second parameter begins behind a gap.
    add("a", {3, 4}, 0, 0);
    add("b", {2}, 0, 14);
    add("c", {4, 4}, 1, 16);
  }
  void add(const std::string& name, const program::Dims& dims, int32_t bucket, int64_t at) {
    Parameter p;
    p.name = name;
    p.shape = program::make_shape(PLAIT_F32, dims);
    p.group = 0;
    p.bucket = bucket;
    p.flat_offset = at;
    p.stored_elements = program::elements(p.shape);
    p.holders = {0};
    plan.parameters.push_back(p);
  }
  std::map<const Parameter*, ValueId> of(std::initializer_list<ValueId> values) const {
    std::map<const Parameter*, ValueId> all;
    size_t i = 0;
    for (const ValueId v : values) {
      if (v) all[&plan.parameters[i]] = v;
      ++i;
    }
    return all;
  }
};

constexpr const char* kGradients = R"(
  %1 f32 (4) at 0:0 = persistent "x"
  %2 f32 (3, 4) = map(%1) [exp(x0)] @a backward
  %3 f32 (2) = map() [2.0] @b backward
  %4 f32 (4, 4) = map(%1) [-x0] @c backward
)";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "stage 2 collects gradients in a buffer and keeps the own part") {
  read(kGradients);
  scatter_gradients(g, plan, of({2, 3, 4}));
  program::eliminate_dead_ops(g);
  expect(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %5 f32 (16) = buffer
    %7 f32 (16) = buffer
    %2 f32 (3, 4) in %7 = map(%1) [exp(x0)] @a backward
    %3 f32 (2) in %7+56 = map() [2.0] @b backward
    %4 f32 (4, 4) in %5 = map(%1) [-x0] @c backward
    %6 f32 (8) at 5:32 = collective_start(%5, %4) {kind: 3, ranks: 2, id: 0} @model.default
    %8 f32 (2) in %7+48 = map() [0.0] @model.default
    %9 f32 (8) at 5:0 = collective_start(%7, %2, %8, %3) {kind: 3, ranks: 2, id: 1} @model.default
    %10 f32 (8) in %6 = collective_done(%6, %5) {id: 0} in_place [0] @model.default
    %11 f32 (8) in %9 = collective_done(%9, %7) {id: 1} in_place [0] @model.default
  )");
  CHECK_FALSE(program::find_fault(g));
}

TEST_CASE_FIXTURE(Fixture,
                  "stage 2 leaves out a bucket without gradients, and adds micro-batches up") {
  plan.accumulation = 2;
  read(kGradients);
  scatter_gradients(g, plan, of({2, 0, 0}));
  program::eliminate_dead_ops(g);
  expect(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %5 f32 (16) = buffer
    %9 f32 (8) at 5:0 = persistent "gradients of model.default"
    %2 f32 (3, 4) in %5 = map(%1) [exp(x0)] @a backward
    %6 f32 (4) in %5+48 = map() [0.0] @model.default
    %7 f32 (8) = collective_start(%5, %2, %6) {kind: 3, ranks: 2, id: 0} @model.default
    %8 f32 (8) in %7 = collective_done(%7, %5) {id: 0} in_place [0] @model.default
    %10 f32 (8) = map(%9, %8) [x0 + x1] @model.default
    %11 f32 (8) in %9 = map(%10) [copy(x0)] @model.default
  )");
  CHECK_FALSE(program::find_fault(g));
}

TEST_CASE_FIXTURE(Fixture, "stage 2 fills the place of a gradient that is missing, whole") {
  read(kGradients);
  scatter_gradients(g, plan, of({0, 3, 0}));
  program::eliminate_dead_ops(g);
  expect(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %5 f32 (16) = buffer
    %3 f32 (2) in %5+56 = map() [2.0] @b backward
    %6 f32 (14) in %5 = map() [0.0] @model.default
    %7 f32 (8) at 5:0 = collective_start(%5, %6, %3) {kind: 3, ranks: 2, id: 0} @model.default
    %8 f32 (8) in %7 = collective_done(%7, %5) {id: 0} in_place [0] @model.default
  )");
  CHECK_FALSE(program::find_fault(g));
}

TEST_CASE_FIXTURE(Fixture, "stage 3 gathers a bucket while the one before it is used") {
  plan.zero = 3;
  read(R"(
    %1 f32 (3, 3) at 0:0 = persistent "x"
    %2 f32 (3, 4) at none = persistent "a"
    %3 f32 (4, 4) at none = persistent "c"
    %4 f32 (3, 4) = matmul(%1, %2) @a
    %5 f32 (3, 4) = matmul(%4, %3) @c
    %6 f32 (3, 4) = map(%5) [-x0] @c backward
    %7 f32 (3, 4) at 1:0 = matmul(%6, %3) {transpose_b: true} @c backward
  )");
  gather_parameters(g, plan, of({2, 0, 3}));
  expect(R"(
    %1 f32 (3, 3) at 0:0 = persistent "x"
    %2 f32 (3, 4) at none = persistent "a"
    %3 f32 (4, 4) at none = persistent "c"
    %8 f32 (16) = buffer
    %10 f32 (16) = buffer
    %12 f32 (16) = buffer
    %14 f32 (8) at 4:0 = persistent "parameters of model.default"
    %17 f32 (8) at 4:32 = persistent "parameters of model.default"
    %20 f32 (8) at 4:32 = persistent "parameters of model.default"
    %15 f32 (16) in %8 = collective_start(%14) {kind: 4, ranks: 2, id: 0} @model.default
    %16 f32 (16) in %15 = collective_done(%15) {id: 0} in_place [0] @model.default
    %18 f32 (16) in %10 = collective_start(%17) {kind: 4, ranks: 2, id: 1} @model.default
    %9 f32 (3, 4) in %16 = view
    %4 f32 (3, 4) = matmul(%1, %9) @a
    %19 f32 (16) in %18 = collective_done(%18) {id: 1} in_place [0] @model.default
    %21 f32 (16) in %12 = collective_start(%20) {kind: 4, ranks: 2, id: 2} @model.default
    %11 f32 (4, 4) in %19 = view
    %5 f32 (3, 4) = matmul(%4, %11) @c
    %6 f32 (3, 4) = map(%5) [-x0] @c backward
    %22 f32 (16) in %21 = collective_done(%21) {id: 2} in_place [0] @model.default
    %13 f32 (4, 4) in %22 = view
    %7 f32 (3, 4) at 1:0 = matmul(%6, %13) {transpose_b: true} @c backward
  )");
  CHECK_FALSE(program::find_fault(g));
}

TEST_CASE_FIXTURE(Fixture, "stage 3 leaves a program without parameters as it is") {
  const char* lines = R"(
    %1 f32 (3, 3) at 0:0 = persistent "x"
    %2 f32 (3, 3) at 1:0 = map(%1) [exp(x0)]
  )";
  read(lines);
  gather_parameters(g, plan, of({0, 0, 0}));
  expect(lines);
}
