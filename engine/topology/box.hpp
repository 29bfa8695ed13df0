// Boxes of a tensor: the form in which parts of tensors are stored, sent and compared, whatever cut them out.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/topology/extent_split.hpp"

namespace plait::topology {

// GridSizes per dimension, outermost first, row-major.
using Extent = std::vector<int64_t>;

// Elements of a tensor of that extent; 1 for a scalar (no dimensions). Errors: PLAIT_ERR_INVALID when a size is negative or the
// product is beyond 64 bits.
int64_t elements(const Extent& extent);

// The elements offset[d] <= i[d] < offset[d] + extent[d].
struct Box {
  std::vector<int64_t> offset;
  Extent extent;
  bool operator==(const Box&) const = default;
};
Box full_box(const Extent& extent);
inline int64_t elements(const Box& box) { return elements(box.extent); }

// What both have; false when that is nothing. Both of the same number of dimensions, here and below.
bool intersect(const Box& a, const Box& b, Box& both);
// `from` without `hole`, which lies inside of it: up to two disjoint boxes a dimension, appended to `rest`.
void subtract(const Box& from, const Box& hole, std::vector<Box>& rest);

// The flat elements `range` of `box`, counted row by row inside of it: the fewest boxes, in flat order, in the coordinates that
// `box` has. With n dimensions there are 2n - 1 at most.
std::vector<Box> flat_boxes(const Box& box, const Range& range);

// The flat number of the first element of `inner` inside of `outer`, which holds it.
int64_t flat_index(const Box& outer, const Box& inner);

}  // namespace plait::topology
