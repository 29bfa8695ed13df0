// The entry points of every plan. Each is written by one function, which adds its programs to the
// draft in the order in which they run.
#pragma once

#include <vector>

#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// A training step: zero_grad, forward and backward passes of its micro-batches, update. Errors:
// topology::InvalidTopology for a recompute budget that cannot be met.
EntryPoint write_train_step(const EntryPointSource& from);
// A batch of an evaluation. Sets what it leaves: metrics, outputs, and messages under way.
EntryPoint write_evaluate(const EntryPointSource& from);
// The same batch, whose outputs are then sent to all pipeline ranks. After evaluate.
EntryPoint write_predict(const EntryPointSource& from);
// The end of an evaluation: metric states are summed over the ranks. After evaluate. No launches on
// a single rank.
EntryPoint write_reduce_metrics(const EntryPointSource& from);
// Makes the low copies of parameters anew. No launches where there are none.
EntryPoint write_refresh(const EntryPointSource& from);

// All of them, in the order in which they are written.
std::vector<WriteEntryPoint> standard_entry_points();

}  // namespace plait::plan
