// Fused programs give what unfused ones give, and are as short as they should be.
#include <doctest/doctest.h>

#include <cmath>

#include "engine/program/op_def.hpp"
#include "engine/program/passes.hpp"
#include "tests/unit/runtime/program_runner.hpp"

using namespace plait;
using program::attr;
using program::binary;
using program::Graph;
using program::make_shape;
using program::ValueId;

TEST_CASE("a chain of element-wise ops becomes one map, scalars and constants with it") {
  test::Runner runner("reference");
  const auto out = runner.run({make_shape(PLAIT_F64, {5}), make_shape(PLAIT_F64, {})},
                              {{1, 2, 3, 4, 5}, {2}}, [](Graph& g, const std::vector<ValueId>& in) {
                                const ValueId s =
                                    program::scaled(g, in[1], 3);  // scalar arithmetic
                                const ValueId y = binary(g, "mul", g.apply1("sqrt", {in[0]}), s);
                                return std::vector{binary(g, "add", y, g.constant(1))};
                              });
  for (int i = 0; i < 5; ++i)
    CHECK(out[0][static_cast<size_t>(i)] == doctest::Approx(std::sqrt(i + 1.0) * 6 + 1));
  CHECK(runner.last_program().calls.size() == 1);
}

TEST_CASE("a value with another reader stays, as a second output of the joined map") {
  test::Runner runner("reference");
  const auto out = runner.run(
      {make_shape(PLAIT_F64, {3})}, {{1, 2, 3}}, [](Graph& g, const std::vector<ValueId>& in) {
        const ValueId a = program::scaled(g, in[0], 2);
        const ValueId b = binary(g, "mul", a, a);
        const ValueId sum = g.apply1("reduce", {a},
                                     {attr("kind", std::string("sum")),
                                      attr("axes", std::vector<int64_t>{0}), attr("keep", false)});
        return std::vector{b, sum};
      });
  CHECK(out[0] == std::vector<double>{4, 16, 36});
  CHECK(out[1] == std::vector<double>{12});
  CHECK(runner.last_program().calls.size() == 2);
}

TEST_CASE("the sum of squares of a product folds into it, of anything else it stays") {
  test::Runner runner("reference");
  const auto squares = [](Graph& g, ValueId v) {
    return g.apply1("reduce", {v},
                    {attr("kind", std::string("sum_squares")),
                     attr("axes", std::vector<int64_t>{0, 1}), attr("keep", false)});
  };
  const auto run = [&](bool biased) {
    return runner.run(
        {make_shape(PLAIT_F64, {2, 2}), make_shape(PLAIT_F64, {2, 2}), make_shape(PLAIT_F64, {2})},
        {{1, 2, 3, 4}, {1, 0, 0, -1}, {1, 1}}, [&](Graph& g, const std::vector<ValueId>& in) {
          ValueId y = g.apply1("matmul", {in[0], in[1]});
          if (biased) y = binary(g, "add", y, in[2]);
          return std::vector{y, squares(g, y)};
        });
  };
  CHECK(run(false) == std::vector<std::vector<double>>{{1, -2, 3, -4}, {30}});
  CHECK(runner.last_program().calls.size() == 1);
  CHECK(run(true) == std::vector<std::vector<double>>{{2, -1, 4, -3}, {30}});
  CHECK(runner.last_program().calls.size() == 2);
}

TEST_CASE("bias and activation fold into the matmul") {
  for (const char* activation : {"relu", "tanh", "sigmoid"}) {
    test::Runner runner("reference");
    const auto out = runner.run(
        {make_shape(PLAIT_F64, {2, 2}), make_shape(PLAIT_F64, {2, 2}), make_shape(PLAIT_F64, {2})},
        {{1, 2, 3, 4}, {1, 0, 0, -1}, {0.5, 1}}, [&](Graph& g, const std::vector<ValueId>& in) {
          const ValueId y = binary(g, "add", g.apply1("matmul", {in[0], in[1]}), in[2]);
          return std::vector{g.apply1(activation, {y})};
        });
    REQUIRE(runner.last_program().calls.size() == 1);
    const auto& op = runner.last_program().graph->ops()[0];
    CHECK(op.name == "matmul");
    CHECK(op.attrs.text("activation", "") == activation);
    const double x[] = {1.5, -1, 3.5, -3};
    for (int i = 0; i < 4; ++i) {
      const double v = x[i];
      const double expected = std::string(activation) == "relu"   ? std::max(v, 0.0)
                              : std::string(activation) == "tanh" ? std::tanh(v)
                                                                  : 1 / (1 + std::exp(-v));
      CHECK(out[0][static_cast<size_t>(i)] == doctest::Approx(expected));
    }
  }
}

TEST_CASE("a pre-activation that somebody reads is not folded away") {
  test::Runner runner("reference");
  const auto out = runner.run({make_shape(PLAIT_F64, {1, 1}), make_shape(PLAIT_F64, {1, 1})},
                              {{2}, {-3}}, [](Graph& g, const std::vector<ValueId>& in) {
                                const ValueId y = g.apply1("matmul", {in[0], in[1]});
                                return std::vector{g.apply1("relu", {y}), program::scaled(g, y, 2)};
                              });
  CHECK(out[0][0] == 0);
  CHECK(out[1][0] == -12);
}

TEST_CASE("target = target + matmul adds in place") {
  test::Runner runner("reference");
  runner.run(
      {make_shape(PLAIT_F64, {1, 1}), make_shape(PLAIT_F64, {1, 1}), make_shape(PLAIT_F64, {1, 1})},
      {{2}, {5}, {7}}, [](Graph& g, const std::vector<ValueId>& in) {
        g.assign(in[2], binary(g, "add", in[2], g.apply1("matmul", {in[0], in[1]})));
        return std::vector<ValueId>{};
      });
  REQUIRE(runner.last_program().calls.size() == 1);
  const auto& op = runner.last_program().graph->ops()[0];
  CHECK(op.attrs.integer("accumulate", 0) == 1);
  CHECK(op.alias == std::vector<int32_t>{2});
}

TEST_CASE("updates of several tensors are one pass that reads all old values before it writes") {
  // a' = a + b, b' = a - b, as an optimizer with one state would write it; the probes copy what the
  // memory holds afterwards.
  for (const std::string device : {"reference", "cpu"}) {
    CAPTURE(device);
    const uint32_t type = device == "cpu" ? PLAIT_F32 : PLAIT_F64;
    test::Runner runner(device);
    const auto out = runner.run(
        {make_shape(type, {2}), make_shape(type, {2})}, {{1, 2}, {10, 20}},
        [](Graph& g, const std::vector<ValueId>& in) {
          const ValueId sum = binary(g, "add", in[0], in[1]);
          const ValueId difference = binary(g, "sub", in[0], in[1]);
          g.assign(in[0], sum);
          g.assign(in[1], difference);
          // Fresh names for the same memory: their readers come after the writes.
          const ValueId a = g.persistent("a after", g.shape(in[0]), g.value(in[0]).buffer);
          const ValueId b = g.persistent("b after", g.shape(in[1]), g.value(in[1]).buffer);
          return std::vector{g.apply1("softmax", {a}), g.apply1("softmax", {b})};
        });
    const auto& ops = runner.last_program().graph->ops();
    REQUIRE(ops.size() == 3);  // the update and the probes
    for (int32_t alias : ops[0].alias) CHECK(alias >= 0);
    CHECK(out[0][0] == doctest::Approx(1 / (1 + std::exp(11.0))));  // a' = 11, 22
    CHECK(out[1][1] == doctest::Approx(1 / (1 + std::exp(9.0))));   // b' = -9, -18
  }
}

TEST_CASE("ops whose results nobody reads are dropped") {
  test::Runner runner("reference");
  runner.run({make_shape(PLAIT_F64, {2})}, {{1, 2}}, [](Graph& g, const std::vector<ValueId>& in) {
    g.apply1("softmax", {in[0]});
    return std::vector{program::scaled(g, in[0], 2)};
  });
  CHECK(runner.last_program().calls.size() == 1);
}
