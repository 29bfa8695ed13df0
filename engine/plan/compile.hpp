// Compiles a traced program to a list of kernel calls: passes, kernel selection, memory.
#pragma once

#include <memory>
#include <string>

#include "engine/plan/plan.hpp"

namespace plait::plan {

// Runs the passes, selects a kernel for each op and plans transient memory. Errors:
// PLAIT_ERR_UNIMPLEMENTED if the device has no kernel for an op; the text lists each kernel's
// reason.
Program compile(std::string name, std::unique_ptr<program::Graph> graph, const Plan& plan);

// Whether the device has a kernel for an op, which need not be in the graph.
bool has_kernel(const Plan& plan, const program::Graph& graph, const program::Op& op);

}  // namespace plait::plan
