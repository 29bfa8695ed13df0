// One element of an element-wise program, computed while it is planned.
#include "engine/program/evaluate_element.hpp"

#include <doctest/doctest.h>

#include <cmath>

#include "engine/base/error.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

TEST_CASE_FIXTURE(GraphFixture, "an element is computed op by op, in double") {
  const ValueId x = in({3}), y = in({3});
  const ValueId z = g.apply1("add", {g.apply1("mul", {x, y}), g.constant(0.5)}),
                larger = g.apply1("lt", {x, z}), chosen = g.apply1("select", {larger, z, x});
  const std::vector<double> values = evaluate_element(g, {{x, 3}, {y, 1.0 / 3}});
  CHECK(values[z] == 3 * (1.0 / 3) + 0.5);
  CHECK(values[larger] == 0);
  CHECK(values[chosen] == 3);
  CHECK(std::isnan(evaluate_element(g, {{x, 0}, {y, INFINITY}})[z]));
}

TEST_CASE_FIXTURE(GraphFixture,
                  "numbers are rounded to their types: 1e-50 is 0 in f32, not in f64") {
  for (const uint32_t type : {PLAIT_F32, PLAIT_F64}) {
    const ValueId x = in({3}, type),
                  y = g.apply1("div", {x, g.apply1("add", {x, g.constant(1e-50)})}),
                  whole = g.apply1("cast", {g.apply1("add", {x, g.constant(2.75)})},
                                   {attr("dtype", int64_t{PLAIT_I32})});
    const std::vector<double> values = evaluate_element(g, {});
    CHECK(std::isnan(values[y]) == (type == PLAIT_F32));
    CHECK(values[whole] == 2);
  }
}

TEST_CASE_FIXTURE(GraphFixture, "any number but 0 is true") {
  const ValueId x = in({3}), truth = g.apply1("cast", {x}, {attr("dtype", int64_t{PLAIT_BOOL})});
  for (const double number : {1.0, 0.0, 0.5, -3.0})
    CHECK(evaluate_element(g, {{x, number}})[truth] == (number != 0 ? 1 : 0));
}

TEST_CASE_FIXTURE(GraphFixture, "inputs without a number are 0, and an update shows what it made") {
  const ValueId x = in({3}), y = in({3}), after = g.assign(x, g.apply1("sub", {x, y}));
  const std::vector<double> values = evaluate_element(g, {{y, 2}});
  CHECK(values[x] == 0);
  CHECK(values[after] == -2);
  CHECK(g.storage_of(after) == x);
}

TEST_CASE_FIXTURE(GraphFixture, "an op that is not element-wise is refused") {
  g.apply1("softmax", {in({3})});
  CHECK_THROWS_AS(evaluate_element(g, {}), Error);
}
