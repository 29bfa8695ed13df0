// What optimizers take for one parameter: of the matrices of experts (E, R, C), each by itself.
#pragma once

#include <plait/plugin.hpp>

#include <vector>

namespace plait::groups {

// Whether the parameter (E, ..) has E matrices, each of which some rows are multiplied with.
inline bool of(const Update& u) { return u.info && (u.info->flags & PLAIT_PARAMETER_GROUPED) != 0; }

// The sum of the squares of x: (), of groups (E, ..) of each, (E, 1, ..).
inline Value sum_squares(const Builder& b, const Update& u, Value x) {
  if (!of(u)) return b.sum_squares(x);
  std::vector<int64_t> axes;
  for (size_t d = 1; d < b.shape(x).ndim(); ++d) axes.push_back(static_cast<int64_t>(d));
  return b.op("reduce", {x},
              {attr("kind", "sum_squares"), attr("axes", std::span<const int64_t>(axes)),
               attr("keep", true)});
}

// The number of elements of x, of groups of each.
inline int64_t count(const Builder& b, const Update& u, Value x) {
  return b.shape(x).count(of(u) ? 1 : 0);
}

}  // namespace plait::groups
