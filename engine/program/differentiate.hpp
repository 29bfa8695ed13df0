// Reverse-mode differentiation of a program: appends the ops that compute gradients.
#pragma once

#include <vector>

#include "engine/program/graph.hpp"

namespace plait::program {

// Appends the backward ops of the scalar `loss` and returns d loss / d v for each v of `targets` (0 where the loss does not
// depend on it). Only values with requires_grad are followed. Runs before fusion.
// Errors: PLAIT_ERR_UNIMPLEMENTED when a gradient has to pass through an op without a rule; names the op and its scope.
std::vector<ValueId> differentiate(Graph& g, ValueId loss, const std::vector<ValueId>& targets);

}  // namespace plait::program
