// One program copied into another: values, shared memory, scopes.
#include "engine/program/splice.hpp"

#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : GraphFixture {
  Graph to{&ops};
};

}  // namespace

TEST_CASE_FIXTURE(Fixture,
                  "ops follow those that are there, and read what stands for their inputs") {
  g.scope = "rule";
  const ValueId x = in({2, 3}), y = in({3});
  const ValueId sum = g.apply1("add", {x, y});
  const ValueId product = g.apply1("mul", {sum, x});
  to.scope = "update";
  const ValueId first = to.persistent("first", make_shape(PLAIT_F32, {2, 3}), {1, 64});
  const ValueId scaled = to.apply1("mul", {first, to.constant(2)});
  const ValueId second = to.persistent("second", make_shape(PLAIT_F32, {3}), {1, 0});
  const size_t before = to.ops().size();
  int asked = 0;
  const auto made = splice(to, g, [&](ValueId v) {
    ++asked;
    return v == x ? scaled : second;
  });
  CHECK(asked == 2);
  REQUIRE(to.ops().size() == before + 2);
  CHECK(to.ops()[before].in == std::vector<ValueId>{scaled, second});
  CHECK(to.ops()[before + 1].in == std::vector<ValueId>{made[sum], scaled});
  CHECK(same(to.shape(made[product]), g.shape(product)));
  CHECK(to.ops()[before].scope == "rule");
  CHECK(to.scope == "update");
  CHECK(to.readers(scaled).size() == 2);
}

TEST_CASE_FIXTURE(Fixture, "views and in-place results share the memory of what they stand for") {
  const ValueId x = in({2, 3});
  const ValueId doubled = g.apply1("add", {x, x});
  const ValueId flat = g.apply1("reshape", {doubled}, {attr("shape", Dims{6})});
  const ValueId sum = g.apply_in_place(
      "collective_start", {doubled},
      {attr("kind", int64_t{2}), attr("ranks", int64_t{2}), attr("id", int64_t{0})});
  const ValueId done = g.apply_in_place("collective_done", {sum}, {attr("id", int64_t{0})});
  const ValueId outside = to.persistent("outside", g.shape(x), {1, 0});
  const auto made = splice(to, g, [&](ValueId) { return outside; });
  for (const ValueId v : {flat, sum, done}) CHECK(to.storage_of(made[v]) == made[doubled]);
  CHECK(to.storage_of(made[doubled]) == made[doubled]);
}

TEST_CASE_FIXTURE(TextFixture, "what lies in a part of another value does so in the copy") {
  read(R"(
    %1 f32 (4) at 0:0 = persistent "x"
    %2 f32 (4) = map(%1) [exp(x0)]
    %3 f32 (2) = slice(%1) {stop: 2}
    %4 f32 (2) in %2+8 = map(%3) [-x0]
  )");
  Graph to(&ops);
  const ValueId outside = to.persistent("outside", g.shape(1), {1, 0});
  const auto made = splice(to, g, [&](ValueId) { return outside; });
  CHECK(to.value(made[4]).alias_of == made[2]);
  CHECK(to.storage_offset(made[4]) == 8);
}

TEST_CASE_FIXTURE(Fixture, "what nobody reads is not asked for") {
  in({4});
  const auto made = splice(to, g, [](ValueId) -> ValueId {
    FAIL("asked");
    return 0;
  });
  CHECK(made == std::vector<ValueId>(g.n_values(), 0));
  CHECK(to.ops().empty());
}
