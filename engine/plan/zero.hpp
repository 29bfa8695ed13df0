// ZeRO stages 2 and 3 (Rajbhandari et al. 2020) as rewrites: gradients and parameters that exist as a whole only for a while.
#pragma once

#include <map>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::plan {

// Stage 2: the gradients of a bucket come together in a buffer of the program, and each replica keeps its own elements of their sum.
// Adds to what is there when the step has several micro-batches.
void scatter_gradients(program::Graph& g, Plan& plan,
                       const std::map<const Parameter*, program::ValueId>& gradients);

// Stage 3: what the program reads of a bucket's parameters is gathered before the forward pass first needs it, and again before the
// backward pass does; while one bucket is used the next one comes. values: as the program reads the parameters so far.
void gather_parameters(program::Graph& g, Plan& plan,
                       const std::map<const Parameter*, program::ValueId>& values);

}  // namespace plait::plan
