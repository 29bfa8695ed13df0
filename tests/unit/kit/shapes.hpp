// Shapes of operands, for tests of parsers.
#pragma once

#include <plait/tensor.h>

#include <algorithm>
#include <vector>

inline plait_shape shape(uint32_t dtype, const std::vector<int64_t>& dims) {
  plait_shape s{dtype, static_cast<uint32_t>(dims.size()), {}};
  std::copy(dims.begin(), dims.end(), s.dims);
  return s;
}
