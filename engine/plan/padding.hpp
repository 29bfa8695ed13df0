// The padding of parameters that the tensor ranks shard unevenly: elements behind the shard of the
// last ranks. Programs read them as zeros.
#pragma once

#include "engine/plan/plan.hpp"
#include "engine/program/graph.hpp"

namespace plait::plan {

// Checks that an element-wise optimizer keeps the padding of a group at 0. rule: its update of one
// element, with the names that declare_states() gives. It is computed over 100 steps. Errors:
// PLAIT_ERR_PLUGIN naming optimizer and parameter. Every rank finds the same.
void check_padding_stays_zero(const Plan& plan, const ParameterGroup& group,
                              const program::Graph& rule);

}  // namespace plait::plan
