// The instructions of a map as expressions of C++.
#pragma once

#include <plait/map.h>

#include <string>

namespace plait::cuda::map {

// Statements that define r0, r1, ... (inputs are parameters of these names) with the type `real`,
// and assign the results to y0, y1, ... `wide`: real is double, else float.
std::string statements(const plait_map& m, bool wide);

}  // namespace plait::cuda::map
