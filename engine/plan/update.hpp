// The update program: one element-wise pass over each group's flat shard, or one parameter after
// the other where the optimizer sees whole tensors.
#pragma once

#include <memory>
#include <vector>

#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// Determines the states that the groups' optimizers keep. Must run before write_update().
void declare_states(PlanDraft& plan);
// Writes the program that divides, clips and applies gradients. pending: sends of the step that may
// not have completed yet.
std::unique_ptr<program::Graph> write_update(PlanDraft& plan,
                                             const std::vector<PendingSend>& pending);
// Writes the program that zeroes the buffers in which micro-batches accumulate.
std::unique_ptr<program::Graph> write_zero_grad(const Plan& plan);

}  // namespace plait::plan
