// The elements that a map visits, as few nested loops as possible.
#pragma once

#include <plait/op.h>

#include <array>
#include <cstdint>
#include <vector>

namespace plait::cuda::map {

// dims[0..ndim) from the outermost loop to the innermost; ndim >= 1. Outputs are dense; strides has
// one row for each input, in elements: in the innermost loop 1 (dense) or 0 (it repeats one
// element).
struct Layout {
  using Strides = std::array<int64_t, PLAIT_MAX_NDIM>;
  int ndim = 1;
  std::array<int64_t, PLAIT_MAX_NDIM> dims{};
  std::vector<Strides> strides;
  int64_t count = 0;  // elements of an output

  int64_t inner() const { return dims[static_cast<size_t>(ndim - 1)]; }
};

// Drops extents of 1 and joins neighbouring dims in which every input is dense, or repeats. The
// desc has passed kit::check_map(). Throws kit::Invalid if a number of elements overflows.
Layout make_layout(const plait_op_desc& d);

}  // namespace plait::cuda::map
