// The padding of parameters that the tensor ranks shard unevenly: elements behind the shard of the
// last ranks. Programs read them as zeros.
#pragma once

#include <optional>

#include "engine/plan/plan.hpp"
#include "engine/program/graph.hpp"

namespace plait::plan {

// An element-wise update of one element, as declare_states() writes it. The values of the learning
// rate, of the schedule factor and of the states have their names in it.
struct ElementRule {
  const program::Graph& graph;
  program::ValueId parameter, gradient, step;
};

// Where a rule makes something else than 0 of padding.
struct PaddingFault {
  const Parameter* parameter;  // of the plan; padded on some rank
  int step;                    // from 1
  double value;                // of the element, which should be 0
};

// Computes the rule over 100 steps, the last ones with a smaller schedule factor. nullopt: the
// padding of the group stays 0, or it has none. Every rank finds the same.
std::optional<PaddingFault> padding_fault(const Plan& plan, const ParameterGroup& group,
                                          const ElementRule& rule);

// Checks that an element-wise optimizer keeps the padding of a group at 0. Errors:
// PLAIT_ERR_PLUGIN naming optimizer and parameter.
void check_padding_stays_zero(const Plan& plan, const ParameterGroup& group,
                              const ElementRule& rule);

}  // namespace plait::plan
