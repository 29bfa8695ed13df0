#include "engine/program/shape.hpp"

#include <doctest/doctest.h>

#include "engine/base/error.hpp"

using namespace plait;
using namespace plait::program;

TEST_CASE("broadcasting follows the usual rule") {
  auto b = [](Dims x, Dims y) {
    return broadcast(make_shape(PLAIT_F32, x), make_shape(PLAIT_F32, y), "[t]");
  };
  CHECK(b({3, 5}, {5}) == Dims{3, 5});
  CHECK(b({3, 1}, {4, 1, 5}) == Dims{4, 3, 5});
  CHECK(b({}, {2}) == Dims{2});
  CHECK(b({0, 3}, {1, 3}) == Dims{0, 3});
  CHECK_THROWS_WITH_AS(
      b({3, 5}, {4}),
      "[t] shapes f32 (3, 5) and f32 (4) do not broadcast: extents 5 and 4 differ and neither is 1",
      Error);
}

TEST_CASE("sizes that overflow are refused") {
  CHECK_THROWS_AS(make_shape(PLAIT_F64, {INT64_MAX, 2}), Error);
  CHECK_THROWS_AS(make_shape(PLAIT_F32, {1, 1, 1, 1, 1, 1, 1, 1, 1}), Error);
  CHECK_THROWS_AS(make_shape(PLAIT_F32, {-1}), Error);
  CHECK_THROWS_WITH_AS(make_shape(99, {-1}), "[shape] unknown element type 99", Error);
  CHECK(bytes(make_shape(PLAIT_BF16, {3, 0, 7})) == 0);
}
