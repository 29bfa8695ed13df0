// One element of an element-wise program, computed while it is planned.
#pragma once

#include <map>
#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// What each value of the program is, by ValueId, where the persistent values are `inputs` (0 if not
// named). In double. Errors: PLAIT_ERR_INTERNAL if an op is not element-wise. Pure.
std::vector<double> evaluate_element(const Graph& g, const std::map<ValueId, double>& inputs);

}  // namespace plait::program
