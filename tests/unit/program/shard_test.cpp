// A program of whole values as the program of one rank: which collectives it has, and on what.
#include "engine/program/shard.hpp"

#include <doctest/doctest.h>
#include <plait/comm.h>

#include <algorithm>

#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

using Texts = std::vector<std::string>;

struct Fixture : GraphFixture {
  std::map<ValueId, Placements> sharded;
  std::vector<RequestedValue> requested;
  std::vector<ValueId> made;
  std::vector<std::string> collectives;  // "tensor all_reduce 128"
  std::unique_ptr<Graph> own;
  std::vector<MeshAxis> mesh{{"tensor", 2, 1}};

  ValueId parameter(Dims dims, Placements placements) {
    const ValueId v = g.persistent("w", make_shape(PLAIT_F32, dims), {0, 0});
    g.value(v).requires_grad = true;
    sharded[v] = std::move(placements);
    return v;
  }
  ValueId weight(Dims dims, int32_t dim) { return parameter(std::move(dims), {shard_along(dim)}); }
  ValueId product(ValueId x, ValueId w) { return g.apply1("matmul", {x, w}); }
  void request(ValueId v, Placements placements = {kReplicated}) {
    requested.push_back({v, std::move(placements)});
  }

  static const char* kind_name(uint32_t kind) {
    return kind == PLAIT_COMM_ALL_REDUCE       ? "all_reduce"
           : kind == PLAIT_COMM_REDUCE_SCATTER ? "reduce_scatter"
                                               : "all_gather";
  }
  const Texts& shard() {
    own = shard_graph(
        g, mesh, sharded, requested,
        [&](size_t axis, const std::string&, uint32_t kind, uint32_t, uint32_t, uint64_t n) {
          collectives.push_back(mesh[axis].name + " " + kind_name(kind) + " " + std::to_string(n));
          return static_cast<int32_t>(collectives.size() - 1);
        },
        made);
    return collectives;
  }
  // Shapes of the first results of all ops of that name.
  Texts shapes(const std::string& name) const {
    Texts all;
    for (const Op& op : own->ops())
      if (op.name == name) all.push_back(text(own->shape(op.out[0])));
    return all;
  }
  // Dims of what `requested[i]` became.
  Dims dims(size_t i) const { return dims_of(own->shape(made.at(i))); }
};

// Two products around an activation, and a residual sum: x (8, 16) -> (8, 16).
struct Block : Fixture {
  ValueId x = in({8, 16});
  ValueId up = weight({16, 32}, 1), down = weight({32, 16}, 0);
  ValueId gain = parameter({16}, {kReplicated}), bias = parameter({16}, {kReplicated});

  ValueId block(ValueId v) {
    const ValueId y = g.apply1("layer_norm", {v, gain, bias}, {attr("eps", 1e-5)});
    const ValueId h = g.apply1("relu", {product(y, up)});
    return binary(g, "add", v, product(h, down));
  }
};

TEST_CASE_FIXTURE(Block, "without sequence parallelism a partial sum is all-reduced") {
  request(block(x));
  CHECK(shard() == Texts{"tensor all_reduce 128"});
  CHECK(shapes("matmul") == Texts{"f32 (8, 16)", "f32 (8, 16)"});
  CHECK(shapes("layer_norm") == Texts{"f32 (8, 16)"});
}

TEST_CASE_FIXTURE(Block, "with it norms and residual sums work on the rows of one rank") {
  mesh[0].sequence = true;
  request(block(block(x)));
  // The first block starts from a replicated x; the second gathers for its product.
  CHECK(shard() == Texts{"tensor reduce_scatter 64", "tensor all_gather 64",
                         "tensor reduce_scatter 64", "tensor all_gather 64"});
  CHECK(shapes("layer_norm") == Texts{"f32 (8, 16)", "f32 (4, 16)"});
  CHECK(dims(0) == Dims{8, 16});
}

TEST_CASE_FIXTURE(Block, "the backward pass mirrors it, and gathers again") {
  mesh[0].sequence = true;
  const ValueId y = block(block(x));
  const ValueId loss = g.apply1(
      "reduce", {y},
      {attr("kind", std::string("sum_squares")), attr("axes", Dims{0, 1}), attr("keep", false)});
  const std::vector<ValueId> weights{up, down, gain, bias};
  const auto gradients = differentiate(g, loss, weights);
  request(loss);
  request(gradients[0], {shard_along(1)});
  request(gradients[1], {shard_along(0)});
  request(gradients[2]);
  request(gradients[3]);
  shard();
  const auto count = [&](const std::string& start) {
    return std::count_if(collectives.begin(), collectives.end(),
                         [&](const std::string& c) { return c.rfind("tensor " + start, 0) == 0; });
  };
  // Of tokens: two products a block and pass. What is all-reduced has no rows: the loss, and the
  // gradients of gain and bias, each the sum of both blocks.
  CHECK(count("all_reduce 1") == 3);
  CHECK(count("all_reduce") == 3);
  // The first block's gradient need not reach x. Rows that were gathered in the forward pass are
  // gathered again.
  CHECK(count("reduce_scatter") == 4);
  CHECK(count("all_gather") == 4);
  CHECK(dims(1) == Dims{16, 16});
  CHECK(dims(2) == Dims{16, 16});
  CHECK(dims(3) == Dims{16});
}

TEST_CASE_FIXTURE(Fixture, "a bias is added once, to the rows of one rank") {
  mesh[0].sequence = true;
  const ValueId b = parameter({4}, {kReplicated});
  const ValueId y = g.apply1("matmul", {in({6, 8}), weight({4, 8}, 1), b},
                             {attr("transpose_b", true), attr("bias", true)});
  request(g.apply1("relu", {y}), {shard_along(0)});
  CHECK(shard() == Texts{"tensor reduce_scatter 12"});
  CHECK(dims(0) == Dims{3, 4});
  for (const Op& op : own->ops()) CHECK((op.def->is_map || op.in.size() < 3));
}

TEST_CASE_FIXTURE(Fixture, "rows that the ranks do not divide are replicated") {
  mesh[0].sequence = true;
  request(g.apply1("relu", {product(in({7, 8}), weight({8, 4}, 0))}));
  CHECK(shard() == Texts{"tensor all_reduce 28"});
}

TEST_CASE_FIXTURE(Fixture, "the rows of a batch of one are those of its second dimension") {
  mesh[0].sequence = true;
  request(g.apply1("relu", {product(in({1, 6, 8}), weight({8, 4}, 0))}), {shard_along(1)});
  CHECK(shard() == Texts{"tensor reduce_scatter 12"});
  CHECK(dims(0) == Dims{1, 3, 4});
}

TEST_CASE_FIXTURE(Fixture, "partial sums are added before they are reduced") {
  const ValueId x = in({4, 8});
  const ValueId a = product(x, weight({8, 6}, 0)), b = product(x, weight({8, 6}, 0)),
                c = product(x, weight({8, 6}, 0));
  request(binary(g, "sub", binary(g, "add", a, b), g.apply1("neg", {c})));
  CHECK(shard() == Texts{"tensor all_reduce 24"});
}

TEST_CASE_FIXTURE(Fixture, "not where another reader needs one of them reduced") {
  const ValueId x = in({4, 8});
  const ValueId a = product(x, weight({8, 6}, 0)), b = product(x, weight({8, 6}, 0));
  request(binary(g, "add", a, b));
  request(g.apply1("tanh", {a}));
  CHECK(shard() == Texts{"tensor all_reduce 24", "tensor all_reduce 24"});
}

TEST_CASE_FIXTURE(Fixture, "equal products are reduced once, whatever is added") {
  const ValueId x = in({4, 8}), w = weight({6, 8}, 1);
  for (int i = 0; i < 2; ++i) {
    const ValueId b = parameter({6}, {kReplicated});
    request(g.apply1("matmul", {x, w, b}, {attr("transpose_b", true), attr("bias", true)}));
  }
  CHECK(shard() == Texts{"tensor all_reduce 24"});
}

TEST_CASE_FIXTURE(Fixture, "of 16 bits, too, though a reduced term is f32") {
  const ValueId x = g.persistent("x", make_shape(PLAIT_BF16, {4, 8}), {0, 0}),
                w = g.persistent("w", make_shape(PLAIT_BF16, {6, 8}), {0, 64});
  sharded[w] = {shard_along(1)};
  for (int i = 0; i < 2; ++i) {
    const ValueId b = parameter({6}, {kReplicated});
    request(g.apply1("matmul", {x, w, b}, {attr("transpose_b", true), attr("bias", true)}));
  }
  CHECK(shard() == Texts{"tensor all_reduce 24"});
  CHECK(shapes("matmul") == Texts{"f32 (4, 6)"});
  for (const ValueId v : made) CHECK(text(own->shape(v)) == "bf16 (4, 6)");
}

TEST_CASE_FIXTURE(Fixture, "a reader that wants a shard has the sum scattered") {
  const ValueId y = product(in({4, 8}), weight({8, 6}, 0));
  request(product(y, weight({6, 2}, 0)));
  request(g.apply1("tanh", {y}));
  // Its other reader goes on with the shard, and is gathered at the end.
  CHECK(shard() ==
        Texts{"tensor reduce_scatter 12", "tensor all_reduce 8", "tensor all_gather 12"});
}

TEST_CASE_FIXTURE(Fixture, "a greatest of partial values is never scattered") {
  mesh[0].sequence = true;
  const ValueId y = product(in({4, 8}), weight({8, 6}, 1));  // columns
  request(g.apply1("reduce", {y}, {attr("kind", std::string("max")), attr("axes", Dims{1})}));
  CHECK(shard() == Texts{"tensor all_reduce 4"});
}

TEST_CASE_FIXTURE(Fixture, "random numbers for a shard are made alone") {
  mesh[0].sequence = true;
  const ValueId counter = g.persistent("counter", make_shape(PLAIT_I64, {2}), {0, 0});
  const ValueId numbers = g.apply1("random", {counter}, {attr("shape", Dims{4, 6})});
  const ValueId mask = binary(g, "le", g.constant(0.1), numbers);
  request(binary(g, "mul", product(in({4, 8}), weight({8, 6}, 0)), mask), {shard_along(0)});
  CHECK(shard() == Texts{"tensor reduce_scatter 12"});
  CHECK(shapes("random") == Texts{"f32 (2, 6)"});
  for (const Op& op : own->ops())
    if (op.name == "random") {
      CHECK(op.attrs.integer("first", 0) == 2);
      CHECK(op.attrs.integer("total", 0) == 4);
    }
}

TEST_CASE_FIXTURE(Fixture, "a mesh of two axes: shards of both, each with its own collectives") {
  mesh = {{"tensor", 2, 0}, {"expert", 3, 2}};
  const ValueId w = parameter({12, 6}, {shard_along(0), shard_along(1)});
  const ValueId y = product(in({4, 12}), w);  // partial on the first axis, columns on the second
  request(g.apply1("relu", {y}), {kReplicated, shard_along(1)});
  request(g.apply1("relu", {y}), {kReplicated, kReplicated});
  request(w, {shard_along(0), shard_along(1)});
  CHECK(shard() == Texts{"tensor all_reduce 8", "expert all_gather 8"});
  CHECK(dims(0) == Dims{4, 2});
  CHECK(dims(1) == Dims{4, 6});
  CHECK(dims(2) == Dims{6, 2});
  for (const Op& op : own->ops())
    if (op.def->collective == CollectiveOp::kStart &&
        op.attrs.integer("kind", 0) == PLAIT_COMM_ALL_REDUCE)
      CHECK(own->value(op.out[0]).alias_of == op.in[0]);
}

// Rows that one axis gathers must be whole on the others: parts would be stacked out of order.
TEST_CASE_FIXTURE(Fixture,
                  "a gather of one axis takes columns in parts of another, and whole rows") {
  mesh = {{"tensor", 2, 0}, {"expert", 3, 2}};
  for (const int32_t dim : {0, 1}) {
    const ValueId w = parameter({12, 6}, {shard_along(0), shard_along(dim)});
    request(g.apply1("relu", {w}), {kReplicated, shard_along(dim)});
  }
  CHECK(shard() == Texts{"expert all_gather 12", "tensor all_gather 36", "tensor all_gather 12"});
  CHECK(dims(0) == Dims{4, 6});
  CHECK(dims(1) == Dims{12, 2});
}

TEST_CASE_FIXTURE(Fixture, "a mesh without axes leaves the program as it is") {
  mesh.clear();
  request(product(in({4, 8}), in({8, 2})), {});
  CHECK(shard().empty());
  CHECK(own->ops().size() == 1);
}

}  // namespace
