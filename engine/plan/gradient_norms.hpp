// The norms of a model's gradients: of each adapter where samples choose theirs, and of all other
// parameters. They decide by what gradients are multiplied, and whether a step is applied.
#pragma once

#include <vector>

#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// What all groups of a norm need: the factor on every gradient, and whether this step may be
// applied. step: updates made, counting this one; count: the same in the type of Plan::step.
// active: whether the step has a sample of the adapter; 0: it always has.
struct StepScale {
  program::ValueId scale, finite, step, count = 0, active = 0;
};

// Own gradients of a model, by norm: of parameters that all tensor ranks have alike, and of those
// that they share. What several pipeline ranks hold, the first of them counts.
struct ModelGradients {
  struct OfNorm {
    std::vector<program::ValueId> replicated, sharded;
  };
  std::vector<OfNorm> norms;
  bool any_sharded = false;  // of any replica: one may own none of them
};

// Writes the norms and the loss of model m. A scale for each of the model's norms; `finite` is the
// same for all of them, step and count are still to be set.
std::vector<StepScale> write_norms(program::Graph& g, PlanDraft& plan, size_t m,
                                   const ModelGradients& gradients);

}  // namespace plait::plan
