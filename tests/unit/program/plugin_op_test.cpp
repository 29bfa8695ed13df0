// What a plugin's op says of its shards, and what the engine refuses of it.
#include "engine/program/plugin_op.hpp"

#include <doctest/doctest.h>
#include <plait/comm.h>

#include "engine/base/error.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/shard.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

// What the item's shard() answers; a plugin's functions have no context of their own.
plait_placement said_in, said_out;
uint32_t said_zeros = 0, seen_zeros = 0, answer = 1;
plait_placement seen;
int64_t seen_ranks = 0;

uint32_t PLAIT_CALL shard(plait_shard_use* use) {
  seen = use->have[0];
  seen_ranks = use->ranks[0];
  use->inputs[0] = said_in;
  use->outputs[0] = said_out;
  seen_zeros = use->keeps_zeros;
  use->keeps_zeros = said_zeros;
  return answer;
}

plait_error* PLAIT_CALL same_shape(const plait_host*, const plait_op_desc* desc,
                                   plait_shape* outputs) {
  outputs[0] = desc->inputs[0];
  return nullptr;
}

// As above, but it forgets the rows of the shard.
plait_error* PLAIT_CALL wrong_shape(const plait_host*, const plait_op_desc*, plait_shape* outputs) {
  outputs[0] = make_shape(PLAIT_F32, {8, 6});
  return nullptr;
}

constexpr plait_placement replicated{PLAIT_PLACE_REPLICATE, -1, 0, 0};
constexpr plait_placement sharded(int32_t dim) { return {PLAIT_PLACE_SHARD, dim, 0, 0}; }
constexpr plait_placement term(uint32_t reduction) {
  return {PLAIT_PLACE_PARTIAL, -1, reduction, 0};
}

struct Fixture : GraphFixture {
  plugin::Extensions extensions;
  plugin::Host host{registry, log, extensions, "acme"};
  plait_op_item item{};
  std::vector<std::string> collectives;

  Fixture() {
    item.struct_size = sizeof item;
    item.name = "acme.swish";
    item.n_outputs = 1;
    item.infer = same_shape;
    item.shard = shard;
    said_in = said_out = sharded(0);
    said_zeros = 0;
    answer = 1;
  }
  // y = swish(x) with x (rows, 6) sharded over 2 ranks along `dim`; y is requested replicated.
  std::unique_ptr<Graph> program(int64_t rows, int32_t dim) {
    if (!registry.find_op(item.name)) {
      host.begin_open();
      plait_error* e = host.add(&host, PLAIT_KIND_OP, &item);
      REQUIRE(e == nullptr);
      host.end_open();
    }
    const ValueId x = in({rows, 6});
    g.scope = "model.swish1";
    const ValueId y = g.apply1(item.name, {x});
    std::vector<ValueId> made;
    return shard_graph(
        g, {{"tensor", 2, 1}}, {{x, {shard_along(dim)}}}, {{y, {kReplicated}}},
        [&](size_t, const std::string& name, uint32_t, uint32_t, uint32_t, uint64_t) {
          collectives.push_back(name);
          return static_cast<int32_t>(collectives.size() - 1);
        },
        made);
  }
  std::string refusal() {
    try {
      program(8, 0);
    } catch (const Error& e) {
      CHECK(e.code() == PLAIT_ERR_PLUGIN);
      return e.text();
    }
    return "accepted";
  }
};

bool has(const std::string& text, const std::string& part) {
  INFO(text);
  const bool found = text.find(part) != std::string::npos;
  CHECK(found);
  return found;
}

TEST_CASE_FIXTURE(Fixture, "the rule sees how an input lies, and runs on the shard") {
  item.infer = wrong_shape;
  has(refusal(), "shard() makes result 0 f32 (4, 6) on each of 2 ranks, infer() gives f32 (8, 6)");
  CHECK(seen.kind == PLAIT_PLACE_SHARD);
  CHECK(seen.dim == 0);
  CHECK(seen.reduction == 0);
  CHECK(seen.reserved == 0);
  CHECK(seen_zeros == 0);
  CHECK(seen_ranks == 2);
}

TEST_CASE_FIXTURE(Fixture, "placements that do not exist are refused, each by its place") {
  const struct {
    plait_placement in, out;
    const char* words;
  } rows[] = {
      {sharded(2), sharded(0), "inputs[0] to a dimension that f32 (8, 6) has not"},
      {sharded(-1), sharded(0), "inputs[0] to a dimension that f32 (8, 6) has not"},
      {term(PLAIT_COMM_SUM), sharded(0), "inputs[0] to what is neither replicated nor a shard"},
      {{77, 0, 0, 0}, sharded(0), "inputs[0] to what is neither replicated nor a shard"},
      {sharded(0), sharded(5), "outputs[0] to a dimension that f32 (8, 6) has not"},
      {sharded(0), term(0), "outputs[0] to a placement or reduction that does not exist"},
      {sharded(0), term(99), "outputs[0] to a placement or reduction that does not exist"},
      {sharded(0), {3, 0, 0, 0}, "outputs[0] to a placement or reduction that does not exist"},
  };
  for (const auto& row : rows) {
    said_in = row.in;
    said_out = row.out;
    const std::string text = refusal();
    has(text, row.words);
    has(text, "[plugin acme] shard() of op 'acme.swish' at model.swish1 set");
    has(text, "tell its author");
  }
}

TEST_CASE_FIXTURE(Fixture, "0: it takes replicated inputs") {
  answer = 0;
  said_in = sharded(9);  // not looked at
  program(8, 0);
  CHECK(collectives == std::vector<std::string>{"model.swish1 gathered"});
}

TEST_CASE_FIXTURE(Fixture, "a partial result is reduced") {
  said_out = term(PLAIT_COMM_MAX);
  item.infer = wrong_shape;
  program(8, 0);
  CHECK(collectives == std::vector<std::string>{"model.swish1 compared"});
}

TEST_CASE_FIXTURE(Fixture, "padded shards only where the rule says that zeros stay") {
  program(7, 0);  // 4 rows on each rank, the last of them padding
  CHECK(collectives == std::vector<std::string>{"model.swish1 gathered"});
  Fixture keeps;
  said_zeros = 1;
  const auto own = keeps.program(7, 0);
  CHECK(keeps.collectives == std::vector<std::string>{"model.swish1 gathered"});
  // The op works on the padded shard; its result is gathered.
  CHECK(dims_of(own->shape(own->ops()[0].out[0])) == Dims{4, 6});
  CHECK(own->ops()[0].name == "acme.swish");
}

TEST_CASE_FIXTURE(Fixture, "an item of before the rule was appended has none") {
  item.struct_size = offsetof(plait_op_item, shard);
  program(8, 0);
  CHECK(collectives == std::vector<std::string>{"model.swish1 gathered"});
}

}  // namespace
