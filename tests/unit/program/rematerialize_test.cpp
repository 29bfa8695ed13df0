// What the backward pass keeps of the forward pass, and what it makes again.
#include "engine/program/rematerialize.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "engine/program/differentiate.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/op_registry.hpp"
#include "engine/program/verify.hpp"
#include "tests/unit/program/text_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : GraphFixture {
  std::vector<ValueId> parameters;

  ValueId parameter(Dims dims) {
    const ValueId v = g.persistent("w", make_shape(PLAIT_F32, dims), {0, 0});
    g.value(v).requires_grad = true;
    parameters.push_back(v);
    return v;
  }
  // (8, 16), by a product with a bias: what an activation's layer reads.
  ValueId linear(const char* scope, ValueId v) {
    g.scope = scope;
    return binary(g, "add", g.apply1("matmul", {v, parameter({16, 16})}), parameter({16}));
  }
  ValueId gelu(const char* scope, ValueId x) {
    g.scope = scope;
    const ValueId e = g.apply1("erf", {scaled(g, x, 0.70710678)});
    return binary(g, "mul", scaled(g, x, 0.5), binary(g, "add", e, g.constant(1)));
  }
  ValueId input() { return g.persistent("x", make_shape(PLAIT_F32, {8, 16}), {0, 64}); }
  // Ends with a product, whose gradient reads `y`, and differentiates.
  void train(ValueId y) {
    const ValueId z = linear("model.last", y);
    g.scope = "model.loss";
    const ValueId loss = g.apply1("reduce", {z},
                                  {attr("kind", std::string("sum")),
                                   attr("axes", std::vector<int64_t>{0, 1}), attr("keep", false)});
    differentiate(g, loss, parameters);
  }
  // What the forward pass makes and the backward pass reads, scalars left out.
  std::set<ValueId> kept() const {
    std::set<ValueId> all;
    for (const Op& op : g.ops())
      for (ValueId v : op.in) {
        const int32_t p = g.value(v).producer;
        if (op.backward && p >= 0 && !g.ops()[static_cast<size_t>(p)].backward &&
            elements(g.shape(v)) > 1)
          all.insert(g.storage_of(v));
      }
    return all;
  }
  // Every op stands behind those that make what it reads.
  void check_order() const {
    for (size_t i = 0; i < g.ops().size(); ++i)
      for (ValueId v : g.ops()[i].in) CHECK(g.value(v).producer < static_cast<int32_t>(i));
  }
};

using Values = std::set<ValueId>;

}  // namespace

TEST_CASE_FIXTURE(Fixture, "gelu keeps its input and nothing else") {
  const ValueId x = linear("model.fc", input()), y = gelu("model.gelu", x);
  train(y);
  CHECK(kept().size() > 2);
  rematerialize(g);
  CHECK(kept() == Values{x, y});  // y is the next product's
  check_order();
  // Copies belong to the layer, and to the backward pass.
  size_t erfs = 0;
  for (const Op& op : g.ops())
    if (op.name == "map" && op.map.instrs[0].op == PLAIT_MAP_ERF) {
      CHECK(op.scope == "model.gelu");
      CHECK(op.backward == (erfs++ == 1));
    }
  CHECK(erfs == 2);
}

TEST_CASE_FIXTURE(Fixture,
                  "what a stack of layers hands on is kept, so that little is made again at once") {
  const ValueId x = linear("model.fc", input()), a = gelu("model.a", x), b = gelu("model.b", a),
                y = gelu("model.c", b);
  train(y);
  rematerialize(g);
  CHECK(kept() == Values{x, a, b, y});
  check_order();
}

TEST_CASE_FIXTURE(Fixture, "a derivative in terms of the result stays as it is") {
  const ValueId x = linear("model.fc", input());
  g.scope = "model.tanh";
  const ValueId y = g.apply1("tanh", {x});
  train(y);
  const size_t n = g.ops().size();
  const Values before = kept();
  rematerialize(g);
  CHECK(g.ops().size() == n);
  CHECK(kept() == before);
}

TEST_CASE_FIXTURE(Fixture, "of equal bytes the values closest to the backward pass are kept") {
  const ValueId x = linear("model.fc", input());
  g.scope = "model.layer";
  const ValueId y = g.apply1("exp", {g.apply1("neg", {x})}), z = g.apply1("neg", {y});
  train(z);
  rematerialize(g);
  CHECK(kept() == Values{y, z});
}

TEST_CASE_FIXTURE(Fixture, "so they are of each operand where two come together") {
  const ValueId x = linear("model.fc", input()), x2 = linear("model.fd", input());
  g.scope = "model.layer";
  const auto branch = [&](ValueId v) { return g.apply1("exp", {g.apply1("neg", {v})}); };
  const ValueId y = branch(x), y2 = branch(x2), z = binary(g, "mul", y, y2);
  train(z);
  rematerialize(g);
  CHECK(kept() == Values{y, y2, z});
}

TEST_CASE_FIXTURE(Fixture, "the fewest bytes are kept: a row in place of what it is spread over") {
  const ValueId x = linear("model.fc", input());
  g.scope = "model.layer";
  const ValueId row = g.apply1("reduce", {x},
                               {attr("kind", std::string("max")),
                                attr("axes", std::vector<int64_t>{0}), attr("keep", true)});
  const ValueId wide = binary(g, "mul", g.apply1("exp", {row}),
                              g.persistent("m", make_shape(PLAIT_F32, {8, 16}), {0, 128}));
  const ValueId y = binary(g, "mul", x, g.apply1("sqrt", {wide}));
  train(y);
  rematerialize(g);
  const Values all = kept();
  CHECK(all.count(wide) == 0);
  CHECK(all.count(y) == 1);
  check_order();
}

TEST_CASE_FIXTURE(Fixture, "a chain that no single map could hold is left as it is") {
  const ValueId x = linear("model.fc", input());
  ValueId v = x;
  g.scope = "model.chain";
  for (int i = 0; i < 40; ++i) v = binary(g, "mul", g.apply1("exp", {v}), x);
  train(v);
  const size_t n = g.ops().size();
  rematerialize(g);
  CHECK(g.ops().size() == n);
}

TEST_CASE_FIXTURE(Fixture, "what crosses stages is kept there and made again from") {
  const ValueId x = linear("model.fc", input());
  g.stage = 1;
  const ValueId y = gelu("model.gelu", x);
  train(y);
  rematerialize(g);
  CHECK(kept() == Values{x, y});
  for (const Op& op : g.ops())
    if (op.scope == "model.gelu") CHECK(op.stage == 1);
}

TEST_CASE_FIXTURE(Fixture, "a program without a backward pass stays as it is") {
  g.bind(gelu("model.gelu", linear("model.fc", input())), {0, 256});
  const size_t n = g.ops().size();
  rematerialize(g);
  CHECK(g.ops().size() == n);
}

namespace {

struct TextCase : TextFixture {
  void after(const std::string& lines, const std::string& expected) {
    read(lines);
    rematerialize(g);
    expect(expected);
    CHECK_FALSE(find_fault(g));
  }
};

}  // namespace

TEST_CASE_FIXTURE(TextCase, "a chain is made again from what the next product keeps anyway") {
  const std::string forward = R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (4, 4) at 1:0 = persistent "w"
    %3 f32 (8, 4) = matmul(%1, %2) @fc
    %4 f32 (8, 4) = map(%3) [exp(x0)] @act
    %5 f32 (8, 4) = map(%4, %3) [x0 * x1] @act
    %6 f32 (8, 4) = matmul(%5, %2) @last
    %7 f32 (4, 4) = matmul(%5, %6) {transpose_a: true} @last backward
    %8 f32 (8, 4) = matmul(%6, %2) {transpose_b: true} @last backward
  )";
  after(forward + R"(
    %9 f32 (8, 4) = map(%8, %4) [x0 * x1] @act backward
    %10 f32 (8, 4) at 2:0 = map(%9, %3) [x0 + x1] @act backward
  )",
        forward + R"(
    %11 f32 (8, 4) = map(%3) [exp(x0)] @act backward
    %9 f32 (8, 4) = map(%8, %11) [x0 * x1] @act backward
    %10 f32 (8, 4) at 2:0 = map(%9, %3) [x0 + x1] @act backward
  )");
}

TEST_CASE_FIXTURE(TextCase,
                  "what a product, or another layer, reads in the backward pass is kept") {
  const char* lines = R"(
    %1 f32 (8, 4) at 0:0 = persistent "x"
    %2 f32 (8, 4) = map(%1) [exp(x0)] @a
    %3 f32 (4, 4) at 2:0 = matmul(%2, %2) {transpose_a: true} @b backward
    %4 f32 (8, 4) at 2:64 = map(%2) [-x0] @b backward
    %5 f32 (8, 4) at 2:192 = map(%2) [-x0] @a backward
  )";
  after(lines, lines);
}

TEST_CASE_FIXTURE(TextFixture, "of 16 bits, too: the operand is kept, not what lies between") {
  read(R"(
    %1 f32 (4, 4) at 0:0 = persistent "x"
    %2 bf16 (4, 4) at 1:0 = persistent "dy"
    %3 bf16 (4, 4) = map(%1) [copy(x0)] @begin
    %4 bf16 (4, 4) = map(%3) [tanh(x0)] @a
    %5 bf16 (4, 4) = map(%4, %3) [x0 * x1] @a
    %6 bf16 (4, 4) at 2:0 = matmul(%5, %5) @b
    %7 bf16 (4, 4) = map(%2, %4) [x0 * x1] @a backward
    %8 bf16 (4, 4) at 2:32 = map(%7, %3) [x0 * x1] @a backward
  )");
  rematerialize(g);
  CHECK_FALSE(find_fault(g));
  for (const int32_t r : g.readers(4)) CHECK_FALSE(g.ops()[static_cast<size_t>(r)].backward);
}
