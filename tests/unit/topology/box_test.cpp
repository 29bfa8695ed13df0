#include "engine/topology/box.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "engine/base/error.hpp"

namespace {

using namespace plait::topology;  // NOLINT: a test of this module

using Random = std::mt19937_64;
int64_t draw(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

Extent random_shape(Random& random) {
  Extent shape(static_cast<size_t>(draw(random, 0, 4)));
  for (int64_t& size : shape) size = draw(random, 1, 7);
  return shape;
}

// The flat index of the first element of `inner` inside `outer`, which contains it.
int64_t flat_index(const Box& outer, const Box& inner) {
  int64_t index = 0;
  for (size_t d = 0; d < outer.extent.size(); ++d)
    index = index * outer.extent[d] + inner.offset[d] - outer.offset[d];
  return index;
}

}  // namespace

TEST_CASE("box: flat ranges become few boxes that hold exactly these elements, in order") {
  Random random(5);
  for (int round = 0; round < 2000; ++round) {
    Box box = full_box(random_shape(random));
    for (int64_t& offset : box.offset) offset = draw(random, 0, 5);
    const int64_t n = elements(box), begin = draw(random, 0, n), end = draw(random, begin, n);
    const std::vector<Box> boxes = flat_boxes(box, {begin, end});
    const size_t most = std::max<size_t>(1, 2 * box.extent.size());
    REQUIRE(boxes.size() <= (box.extent.empty() ? 1 : most - 1));
    int64_t at = begin;
    for (const Box& part : boxes) {
      REQUIRE(flat_index(box, part) == at);
      at += elements(part);
    }
    REQUIRE(at == end);
  }
  CHECK(flat_boxes({{0, 0}, {0, 3}}, {0, 5}).empty());
}

TEST_CASE("box: elements of odd extents") {
  CHECK(elements(Extent{}) == 1);
  CHECK(elements(Extent{3, 0, 2}) == 0);
  CHECK_THROWS_AS(elements(Extent{-1}), plait::Error);
  CHECK_THROWS_AS(elements(Extent{INT64_MAX, 2}), plait::Error);
}
