// ZeRO stages 2 and 3 (Rajbhandari et al. 2020) as rewrites: gradients and parameters are complete
// only temporarily.
#pragma once

#include <map>
#include <vector>

#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// Stage 2: the gradients of a bucket are collected in a buffer of the program, and each replica
// keeps its own shard of their sum. Accumulates if the step has several micro-batches.
void scatter_gradients(program::Graph& g, PlanDraft& plan,
                       const std::map<const Parameter*, program::ValueId>& gradients);

// Stage 3: the parameters of a bucket are gathered before their first use in the forward pass, and
// again before the backward pass; while one bucket is used, the next one is gathered. values: the
// parameters as the program has read them so far.
void gather_parameters(program::Graph& g, PlanDraft& plan,
                       const std::map<const Parameter*, program::ValueId>& values);

}  // namespace plait::plan
