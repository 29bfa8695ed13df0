// The programs behind Plan::statistics.
#pragma once

#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// Whether the outputs of layers, or their gradients, are wanted: they need a trace of their own
// (trace_observed()).
bool observes_layers(const config::StatisticsConfig& config);

// Reports names of figures and of tensors that do not exist, and patterns that match nothing.
// traced: of all models.
void check_statistics(const Plan& plan, const TracedModels& traced, config::Problems& problems);

// Lists the tensors and gives their sums places. After lay_out_parameters(). log: may be null; told
// which tensors are left out.
void declare_statistics(PlanDraft& plan, const TracedModels& traced, Log* log);

// One micro-batch for the outputs of layers, if they are wanted; then parameters and gradients, and
// the sums over all ranks. No launches without statistics.every.
EntryPoint write_statistics(const EntryPointSource& from);

}  // namespace plait::plan
