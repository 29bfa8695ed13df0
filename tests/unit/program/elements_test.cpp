// Element types: sizes, conversions, what is finite; constants that take the type of what they
// meet.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "engine/base/error.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/elements.hpp"
#include "engine/program/op_def.hpp"
#include "engine/program/op_registry.hpp"
#include "tests/unit/program/graph_fixture.hpp"

using namespace plait;
using namespace plait::program;

namespace {

struct Fixture : GraphFixture {
  uint32_t type(ValueId v) const { return g.shape(v).dtype; }
  const Op& maker(ValueId v) const { return g.ops().at(static_cast<size_t>(g.value(v).producer)); }
};

}  // namespace

TEST_CASE("bytes of elements, checked") {
  CHECK(bytes_of(0, PLAIT_F64) == 0);
  CHECK(bytes_of(3, PLAIT_F64) == 24);
  CHECK(bytes_of(3, PLAIT_F32) == 12);
  CHECK(bytes_of(3, PLAIT_BF16) == 6);
  CHECK(bytes_of(3, PLAIT_U8) == 3);
  CHECK_THROWS_AS(bytes_of(-1, PLAIT_F32), Error);
  CHECK_THROWS_AS(bytes_of(1, 0), Error);
  CHECK_THROWS_AS(bytes_of(std::numeric_limits<int64_t>::max(), PLAIT_F64), Error);
}

TEST_CASE("sums of f64 are f64, of everything narrower f32") {
  CHECK(accumulation_dtype(PLAIT_F64) == PLAIT_F64);
  for (const uint32_t dtype : {PLAIT_F32, PLAIT_BF16, PLAIT_F16})
    CHECK(accumulation_dtype(dtype) == PLAIT_F32);
}

TEST_CASE("elements as doubles and back") {
  float narrow[2] = {1, 2};
  store_element(PLAIT_F32, narrow, 1, 1.0 / 3);
  CHECK(narrow[0] == 1);
  CHECK(load_element(PLAIT_F32, narrow, 1) == 1.0F / 3);
  double wide[2] = {1, 2};
  store_element(PLAIT_F64, wide, 1, 1.0 / 3);
  CHECK(load_element(PLAIT_F64, wide, 1) == 1.0 / 3);
  CHECK_THROWS_AS(load_element(PLAIT_I32, wide, 0), Error);
  CHECK_THROWS_AS(store_element(PLAIT_BF16, wide, 0, 1), Error);
}

TEST_CASE("infinities and NaNs are found in every float type, at any place") {
  const auto check = [](uint32_t dtype, auto one, auto infinity, auto nan) {
    CAPTURE(dtype_name(dtype));
    for (const auto bad : {infinity, nan})
      for (size_t at = 0; at < 3; ++at) {
        decltype(one) values[3] = {one, one, one};
        CHECK(all_finite(dtype, values, 3));
        values[at] = static_cast<decltype(one)>(bad);
        CHECK(!all_finite(dtype, values, 3));
        CHECK(all_finite(dtype, values, static_cast<int64_t>(at)));
      }
  };
  check(PLAIT_F32, 3e38F, -INFINITY, NAN);
  check(PLAIT_F64, 1.7e308, -std::numeric_limits<double>::infinity(), std::nan(""));
  check(PLAIT_BF16, uint16_t{0x7f7f}, uint16_t{0xff80}, uint16_t{0x7fc0});
  check(PLAIT_F16, uint16_t{0x7bff}, uint16_t{0xfc00}, uint16_t{0x7e00});
  const int32_t all_ones = -1;
  CHECK(all_finite(PLAIT_I32, &all_ones, 1));
}

TEST_CASE_FIXTURE(Fixture, "a constant takes the type of what it meets") {
  const ValueId half = g.constant(0.5);
  for (const uint32_t dtype : {PLAIT_F64, PLAIT_F32, PLAIT_BF16, PLAIT_F16}) {
    CAPTURE(dtype_name(dtype));
    const ValueId y = g.apply1("mul", {in({4}, dtype), half});
    CHECK(type(y) == dtype);
    CHECK(!g.value(y).weak);
    const Op& made = maker(maker(y).in[1]);
    // Beside 16 bits it stays f32: 0.1 is none of theirs, and the arithmetic is f32.
    CHECK(type(made.out[0]) == (dtype == PLAIT_F64 ? PLAIT_F64 : PLAIT_F32));
    CHECK(made.map.instrs[0].op == PLAIT_MAP_CONST);
    CHECK(made.map.instrs[0].value == 0.5);
  }
  // Integers give it none.
  CHECK(type(g.apply1("mul", {in({4}, PLAIT_I32), half})) == PLAIT_F32);
  // What both are asked for is one value.
  const ValueId x = in({4}, PLAIT_F64);
  const ValueId a = g.apply1("add", {x, half}), b = g.apply1("mul", {x, half});
  CHECK(maker(a).in[1] == maker(b).in[1]);
}

TEST_CASE_FIXTURE(Fixture, "what is made of constants alone is one, too") {
  const ValueId third = g.apply1("div", {g.constant(1), g.constant(3)});
  CHECK(g.value(third).weak);
  CHECK(type(third) == PLAIT_F32);
  const ValueId y = g.apply1("mul", {in({4}, PLAIT_F64), third});
  CHECK(type(y) == PLAIT_F64);
  const Op& division = maker(maker(y).in[1]);
  CHECK(division.map.instrs[0].op == PLAIT_MAP_DIV);
  for (const ValueId v : division.in) CHECK(type(v) == PLAIT_F64);
}

TEST_CASE_FIXTURE(Fixture, "strong operands decide among themselves as ever") {
  const ValueId wide = in({4}, PLAIT_F64), narrow = in({4}, PLAIT_F32), low = in({4}, PLAIT_BF16),
                half = in({4}, PLAIT_F16);
  CHECK(type(g.apply1("add", {narrow, wide})) == PLAIT_F64);
  CHECK(type(g.apply1("add", {low, narrow})) == PLAIT_F32);
  CHECK(type(g.apply1("add", {low, half})) == PLAIT_F32);
  CHECK(type(g.apply1("select", {low, g.constant(1), low})) == PLAIT_BF16);
}

TEST_CASE_FIXTURE(Fixture, "casts: of a constant, to the type that is there, and to another") {
  const ValueId c = g.as_type(g.constant(2), PLAIT_F64);
  CHECK(type(c) == PLAIT_F64);
  CHECK(!g.value(c).weak);
  const ValueId x = in({3}, PLAIT_F32);
  CHECK(g.as_type(x, PLAIT_F32) == x);
  CHECK(type(g.as_type(x, PLAIT_BF16)) == PLAIT_BF16);
  CHECK(type(g.as_type(g.constant(2), PLAIT_I32)) == PLAIT_I32);
}

TEST_CASE_FIXTURE(Fixture, "a graph's own float type is that of what no operand gives a type") {
  Graph wide(&ops, PLAIT_F64);
  const auto type_of = [&](ValueId v) { return wide.shape(v).dtype; };
  const ValueId ids = wide.persistent("ids", make_shape(PLAIT_I32, {3}), {0, 0}),
                counter = wide.persistent("counter", make_shape(PLAIT_I64, {2}), {0, 0});
  CHECK(type_of(wide.constant(1)) == PLAIT_F64);
  CHECK(type_of(wide.apply1("eq", {ids, wide.constant(1)})) == PLAIT_F64);
  CHECK(type_of(wide.apply1("one_hot", {ids}, {attr("depth", int64_t{4})})) == PLAIT_F64);
  CHECK(type_of(wide.apply1("random", {counter}, {attr("shape", std::vector<int64_t>{2})})) ==
        PLAIT_F64);
  CHECK(type_of(wide.apply1("fill", {}, {attr("shape", std::vector<int64_t>{2})})) == PLAIT_F64);
  CHECK(type_of(filled(wide, make_shape(PLAIT_F32, {2}), 1)) == PLAIT_F32);
}

TEST_CASE_FIXTURE(Fixture, "statistics and losses per row are as wide as sums of their rows") {
  for (const uint32_t dtype : {PLAIT_F64, PLAIT_F32, PLAIT_BF16}) {
    CAPTURE(dtype_name(dtype));
    const ValueId x = in({2, 4}, dtype), gain = in({4}, dtype), label = in({2}, PLAIT_I32);
    CHECK(type(g.apply("layer_norm", {x, gain, gain})[1]) == accumulation_dtype(dtype));
    CHECK(type(g.apply("rms_norm", {x, gain})[1]) == accumulation_dtype(dtype));
    CHECK(type(g.apply("cross_entropy", {x, label})[0]) == accumulation_dtype(dtype));
  }
}

TEST_CASE_FIXTURE(Fixture, "a gradient has the type of its value, whatever it came through") {
  const ValueId w = in({4}, PLAIT_F32);
  g.value(w).requires_grad = true;
  const ValueId wide = g.as_type(w, PLAIT_F64);
  const ValueId loss = g.apply1("reduce", {g.apply1("mul", {wide, wide})},
                                {attr("axes", std::vector<int64_t>{0}), attr("keep", false)});
  CHECK(type(loss) == PLAIT_F64);
  const auto gradients = differentiate(g, loss, {w, wide});
  CHECK(type(gradients[0]) == PLAIT_F32);
  CHECK(type(gradients[1]) == PLAIT_F64);
}
