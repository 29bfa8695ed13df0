// Reverse-mode differentiation of a program: appends the ops that compute gradients.
#pragma once

#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// Appends the backward ops of the scalar `loss` and returns d loss / d v for each v of `targets` (0
// if the loss does not depend on it). Follows only values with requires_grad. Runs before fusion.
// Errors: PLAIT_ERR_UNIMPLEMENTED if a gradient must pass through an op without a gradient rule;
// names the op and its scope. seed: d loss / d loss, a scalar of its type; 0: one.
std::vector<ValueId> differentiate(Graph& g, ValueId loss, const std::vector<ValueId>& targets,
                                   ValueId seed = 0);

}  // namespace plait::program
