// Boxes of a tensor: the form in which parts of tensors are stored, sent and compared, however they
// were split.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/topology/extent_split.hpp"

namespace plait::topology {

// Sizes per dimension, outermost first, row-major.
using Extent = std::vector<int64_t>;

// The number of elements of a tensor; 1 for a scalar (no dimensions). Errors: PLAIT_ERR_INVALID if
// a size is negative or the product does not fit in 64 bits.
int64_t elements(const Extent& extent);

// The elements offset[d] <= i[d] < offset[d] + extent[d].
struct Box {
  std::vector<int64_t> offset;
  Extent extent;
  bool operator==(const Box&) const = default;
};
Box full_box(const Extent& extent);
inline int64_t elements(const Box& box) { return elements(box.extent); }

// The intersection; false if it is empty. Both boxes have the same number of dimensions.
bool intersect(const Box& a, const Box& b, Box& both);

// The runs of a block that follow each other in the whole tensor, too: first element there, first
// in
// the block, how many.
void for_each_run(const Extent& dims, const Box& box,
                  const std::function<void(int64_t global_first, int64_t first, int64_t n)>& visit);

// The flat elements `range` of `box`, counted row by row inside it, as the smallest number of
// boxes, in flat order and in the coordinates of `box`. With n dimensions there are at most 2n - 1.
std::vector<Box> flat_boxes(const Box& box, const Range& range);

}  // namespace plait::topology
