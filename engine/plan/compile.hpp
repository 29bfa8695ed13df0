// From a traced program to the list of kernels that run it: passes, kernel selection, memory.
#pragma once

#include <memory>
#include <string>

#include "engine/plan/plan.hpp"
#include "engine/plan/step_programs.hpp"

namespace plait::plan {

// Runs the passes, picks a kernel for each op and plans transient memory. Errors: PLAIT_ERR_UNIMPLEMENTED when the device has no
// kernel that takes an op; the text says what each kernel objected to.
Program compile(std::string name, std::unique_ptr<program::Graph> graph, const Plan& plan);

// Finds which states the groups' optimizers keep. Before write_update().
void declare_states(Plan& plan);
// Writes the program that divides, clips and applies gradients. pending: messages of the step that may still be on their way.
std::unique_ptr<program::Graph> write_update(Plan& plan, const std::vector<PendingSend>& pending);
// Writes the program that zeroes what micro-batches add to.
std::unique_ptr<program::Graph> write_zero_grad(const Plan& plan);

}  // namespace plait::plan
