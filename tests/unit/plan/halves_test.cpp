// Parameters in two halves: what ops read in place of an f32, and how an update writes them.
#include "engine/plan/halves.hpp"

#include "engine/plan/tensor_update.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::plan;

namespace {

struct Fixture : program::TextFixture {
  // Lets value 1 be a parameter (4, 6), split or not.
  void rewrite(bool split) {
    Parameter p;
    p.name = "table";
    p.shape = program::make_shape(PLAIT_F32, {4, 6});
    if (split) {
      p.low = {7, 128};
      p.rest = {8, 256};
    }
    TracedStep step;
    step.graph = std::make_unique<program::Graph>(g);
    step.parameter_uses = {{&p, 0, 1, 0}};
    read_halves(step);
    CHECK_FALSE(program::find_fault(*step.graph));
    g = *step.graph;
  }
};

constexpr const char* kRows = R"(
  %1 f32 (4, 6) at none = persistent "table"
  %2 i32 (3) at 1:0 = persistent "ids"
  %3 f32 (3, 6) = gather(%1, %2) @embed
  %4 f32 (3, 6) at 2:0 = map(%3) [-x0] @next
)";
constexpr const char* kReaders = R"(
  %1 f32 (4, 6) at none = persistent "table"
  %2 f32 (4, 6) at 1:0 = map(%1) [-x0] @a
  %3 f32 (4, 6) at 2:0 = map(%1, %2) [x0 + x1] @b backward
)";

}  // namespace

TEST_CASE_FIXTURE(Fixture, "of a table in halves the rows that are read are joined") {
  read(kRows);
  rewrite(true);
  expect(R"(
    %1 f32 (4, 6) at none = persistent "table"
    %2 i32 (3) at 1:0 = persistent "ids"
    %5 bf16 (4, 6) at 7:128 = persistent "table, low"
    %6 u8 (4, 12) at 8:256 = persistent "table, rest"
    %7 bf16 (3, 6) = gather(%5, %2) @embed
    %8 u8 (3, 12) = gather(%6, %2) @embed
    %3 f32 (3, 6) = join_halves(%7, %8) @embed
    %4 f32 (3, 6) at 2:0 = map(%3) [-x0] @next
  )");
}

TEST_CASE_FIXTURE(Fixture, "any other op gets all of it, and keeps it no longer") {
  read(kReaders);
  rewrite(true);
  expect(R"(
    %1 f32 (4, 6) at none = persistent "table"
    %4 bf16 (4, 6) at 7:128 = persistent "table, low"
    %5 u8 (4, 12) at 8:256 = persistent "table, rest"
    %6 f32 (4, 6) = join_halves(%4, %5) @a
    %2 f32 (4, 6) at 1:0 = map(%6) [-x0] @a
    %7 f32 (4, 6) = join_halves(%4, %5) @b backward
    %3 f32 (4, 6) at 2:0 = map(%7, %2) [x0 + x1] @b backward
  )");
}

TEST_CASE_FIXTURE(Fixture, "a parameter that lies whole is read as before") {
  for (const char* program : {kRows, kReaders}) {
    read(program);
    rewrite(false);
    expect(program);
  }
}

TEST_CASE_FIXTURE(Fixture, "a value that two parameters get is split for each") {
  read(R"(
    %1 f32 (8) at 0:0 = persistent "new"
    %2 bf16 (8) at 1:0 = persistent "low"
    %3 u8 (16) at 2:0 = persistent "rest"
    %4 bf16 (8) at 1:16 = persistent "low"
    %5 u8 (16) at 2:16 = persistent "rest"
  )");
  assign_split(g, {2, 3}, 1);
  assign_split(g, {4, 5}, 1);
  expect(R"(
    %1 f32 (8) at 0:0 = persistent "new"
    %2 bf16 (8) at 1:0 = persistent "low"
    %3 u8 (16) at 2:0 = persistent "rest"
    %4 bf16 (8) at 1:16 = persistent "low"
    %5 u8 (16) at 2:16 = persistent "rest"
    %6 bf16 (8) in %2, %7 u8 (16) in %3 = split_halves(%1)
    %8 bf16 (8) in %4, %9 u8 (16) in %5 = split_halves(%1)
  )");
}

TEST_CASE_FIXTURE(Fixture,
                  "a piece of halves is joined, chosen in f32, and split to where it lies") {
  read(R"(
    %1 bf16 (16) at 0:0 = persistent "low"
    %2 u8 (32) at 1:0 = persistent "rest"
    %3 f32 () at 2:0 = persistent "finite"
  )");
  SplitValue part = part_of(g, {1, 2}, 4, program::make_shape(PLAIT_F32, {8}));
  const program::ValueId old = joined(g, part), made = program::scaled(g, old, 0.5);
  const SplitValue target = part;
  CHECK(assign_if_finite(g, 3, {{old, made}}, 0, nullptr, nullptr, &part) == part.high);
  CHECK(g.value(part.high).alias_of == target.high);
  CHECK(g.value(part.rest).alias_of == target.rest);
  CHECK(g.storage_of(part.high) == 1);
  CHECK(g.storage_offset(part.high) == 8);
  CHECK(g.storage_of(part.rest) == 2);
  CHECK(g.storage_offset(part.rest) == 8);
  CHECK(g.shape(part.rest).dims[0] == 16);
  CHECK_FALSE(program::find_fault(g));
}
