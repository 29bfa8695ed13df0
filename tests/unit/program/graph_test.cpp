// Who reads a value, and who makes it, stay true through rewrites.
#include "engine/program/graph.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "engine/program/op_desc.hpp"
#include "engine/program/op_registry.hpp"
#include "engine/program/passes.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : GraphFixture {
  Fixture() { g.scope = "model.fc1"; }
  // What a look through all ops says.
  void check() {
    std::vector<int32_t> maker(g.n_values(), -1);
    std::vector<std::vector<int32_t>> readers(g.n_values());
    for (size_t i = 0; i < g.ops().size(); ++i) {
      const Op& op = g.ops()[i];
      for (ValueId v : op.out) maker[v] = static_cast<int32_t>(i);
      for (ValueId v : op.in)
        if (readers[v].empty() || readers[v].back() != static_cast<int32_t>(i))
          readers[v].push_back(static_cast<int32_t>(i));
    }
    for (ValueId v = 1; v < g.n_values(); ++v) {
      CAPTURE(v);
      CHECK(g.readers(v) == readers[v]);
      CHECK(g.value(v).producer == maker[v]);
    }
  }
};

using Indices = std::vector<int32_t>;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "an op that reads a value twice is one reader") {
  const ValueId x = in({4}), y = g.apply1("mul", {x, x}), z = g.apply1("add", {x, y});
  CHECK(g.readers(x) == Indices{0, 1});
  CHECK(g.readers(y) == Indices{1});
  CHECK(g.readers(z).empty());
  g.set_input(0, 1, in({4}));
  CHECK(g.readers(x) == Indices{0, 1});
  g.set_input(0, 0, in({4}));
  CHECK(g.readers(x) == Indices{1});
  check();
}

TEST_CASE_FIXTURE(Fixture, "a view that gets another input shares that one's memory") {
  const ValueId x = in({4}), other = in({4});
  const ValueId view = g.apply1("reshape", {x}, {attr("shape", std::vector<int64_t>{2, 2})});
  g.set_input(0, 0, other);
  CHECK(g.storage_of(view) == other);
  check();
}

TEST_CASE_FIXTURE(Fixture, "removed, replaced and reordered ops leave lists that are true") {
  const ValueId x = in({4}), a = g.apply1("exp", {x}), b = g.apply1("neg", {x}),
                c = g.apply1("add", {a, b}), d = g.apply1("sqrt", {x});
  Op exp = g.remove(0);
  check();
  CHECK(g.readers(x) == Indices{1, 3});
  exp.out = {b, a};  // an op that makes what another one made
  exp.map.outputs = {1, 1};
  g.replace(1, exp);
  check();
  g.reorder({3, 1, 2});
  check();
  CHECK(g.value(d).producer == 0);
  CHECK(g.readers(a) == Indices{2});
  g.bind(c, {0, 64});
  eliminate_dead_ops(g);
  check();
  CHECK(g.ops().size() == 2);
  CHECK(g.value(d).producer == -1);
  CHECK(g.is_output(c));
  CHECK_FALSE(g.is_output(a));
}

TEST_CASE_FIXTURE(Fixture, "a copy of a graph goes its own way") {
  const ValueId x = in({4}), y = g.apply1("exp", {x});
  Graph copy(g);
  copy.apply1("neg", {y});
  CHECK(copy.readers(y) == Indices{1});
  CHECK(g.readers(y).empty());
  CHECK(copy.apply1("exp", {x}) == y);
}

TEST_CASE_FIXTURE(Fixture, "fusion of a long chain keeps the lists") {
  const ValueId x = in({8}), w = in({8});
  ValueId v = x;
  for (int i = 0; i < 60; ++i) v = g.apply1(i % 3 ? "add" : "mul", {v, i % 2 ? w : x});
  g.bind(v, {0, 256});
  fuse_maps(g);
  check();
  CHECK(g.ops().size() == 1);
}

TEST_CASE_FIXTURE(Fixture,
                  "a value is computed into a buffer, or copied there if it lies elsewhere") {
  const ValueId memory = g.buffer(make_shape(PLAIT_F32, {16})), x = in({4}),
                y = g.apply1("exp", {x});
  CHECK(g.bind_into(y, memory, 16) == y);
  CHECK(g.ops().size() == 1);
  const ValueId copy = g.bind_into(x, memory, 32);
  REQUIRE(g.ops().size() == 2);
  CHECK(g.ops()[1].in == std::vector<ValueId>{x});
  CHECK(g.ops()[1].map.instrs[0].op == PLAIT_MAP_COPY);
  for (const auto& [v, offset] : {std::pair(y, 16u), {copy, 32u}}) {
    CHECK(g.storage_of(v) == memory);
    CHECK(g.storage_offset(v) == offset);
    CHECK(same(g.shape(v), make_shape(PLAIT_F32, {4})));
  }
  check();
}

TEST_CASE_FIXTURE(Fixture, "a value is left in every place that it is bound to") {
  const ValueId x = in({4}), y = g.apply1("exp", {x});
  CHECK(g.bind(y, {1, 0}) == y);
  const ValueId again = g.bind(y, {1, 64}), input = g.bind(x, {1, 128}),
                part = g.bind(g.buffer(make_shape(PLAIT_F32, {4})), {1, 192});
  REQUIRE(g.ops().size() == 4);
  for (const auto& [v, offset] : {std::pair(y, 0u), {again, 64u}, {input, 128u}, {part, 192u}}) {
    CHECK(g.value(v).buffer == BufferRef{1, offset});
    CHECK(g.is_output(v));
  }
  CHECK(g.ops()[1].in == std::vector<ValueId>{y});
  check();
}

TEST_CASE_FIXTURE(Fixture, "fields that an instruction does not use are 0") {
  const ValueId x = in({4}), y = in({4});
  g.bind(x, {1, 0});
  g.assign(y, x);
  g.apply1("copy", {y});
  g.apply1("fill", {}, {attr("shape", Dims{4})});
  g.constant(0);
  REQUIRE(g.ops().size() == 5);
  for (const Op& op : g.ops()) {
    const plait_map_instr& one = op.map.instrs.at(0);
    CHECK(one.op == (op.in.empty() ? PLAIT_MAP_CONST : PLAIT_MAP_COPY));
    CHECK(OpDesc(g, op, 1).get()->map->reserved == 0);
    CHECK((one.a == 0 && one.b == 0 && one.c == 0 && one.value == 0));
  }
}
