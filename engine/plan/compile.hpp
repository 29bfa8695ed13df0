// Compiles a traced program to a list of kernel calls: passes, kernel selection, memory.
#pragma once

#include <memory>
#include <string>

#include "engine/plan/plan.hpp"
#include "engine/plan/step_programs.hpp"

namespace plait::plan {

// Runs the passes, selects a kernel for each op and plans transient memory. Errors:
// PLAIT_ERR_UNIMPLEMENTED if the device has no kernel for an op; the text lists each kernel's
// reason.
Program compile(std::string name, std::unique_ptr<program::Graph> graph, const Plan& plan);

// Determines the states that the groups' optimizers keep. Must run before write_update().
void declare_states(Plan& plan);
// Writes the program that divides, clips and applies gradients. pending: sends of the step that may
// not have completed yet.
std::unique_ptr<program::Graph> write_update(Plan& plan, const std::vector<PendingSend>& pending);
// Writes the program that zeroes the buffers in which micro-batches accumulate.
std::unique_ptr<program::Graph> write_zero_grad(const Plan& plan);

}  // namespace plait::plan
