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

TEST_CASE("box: its runs in the tensor are its elements in order, as long as they can be") {
  Random random(7);
  for (int round = 0; round < 2000; ++round) {
    const Extent dims = random_shape(random);
    Box box = full_box(dims);
    for (size_t d = 0; d < dims.size(); ++d) {
      box.offset[d] = draw(random, 0, dims[d] - 1);
      box.extent[d] = draw(random, 0, dims[d] - box.offset[d]);
    }
    int64_t at = 0, last_end = -1;
    for_each_run(dims, box, [&](int64_t global_first, int64_t first, int64_t n) {
      REQUIRE(first == at);
      REQUIRE(n > 0);
      REQUIRE(global_first > last_end);  // else it would be one run with the one before
      for (int64_t i = 0; i < n; ++i) {
        // The coordinates of element first + i of the box, and its place in the tensor.
        int64_t rest = first + i, place = 0, size = 1;
        for (size_t d = dims.size(); d-- > 0;) {
          place += (box.offset[d] + rest % box.extent[d]) * size;
          rest /= box.extent[d];
          size *= dims[d];
        }
        REQUIRE(place == global_first + i);
      }
      at += n;
      last_end = global_first + n;
    });
    REQUIRE(at == elements(box));
  }
}

TEST_CASE("box: what two have in common") {
  Box both;
  CHECK(intersect(Box{{0, 2}, {4, 4}}, Box{{3, 0}, {5, 3}}, both));
  CHECK(both == Box{{3, 2}, {1, 1}});
  CHECK(!intersect(Box{{0, 2}, {3, 4}}, Box{{3, 0}, {5, 3}}, both));
  CHECK(!intersect(Box{{0, 3}, {4, 4}}, Box{{3, 0}, {5, 3}}, both));
  CHECK(intersect(Box{}, Box{}, both));
  CHECK(both == Box{});
}
