// Programs of adapters that run on demand: merge() of PEFT methods, which writes their changes into
// weights and biases, and start(), which sets initial values that depend on weights.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// merge_adapters, the same of each adapter where there are others or samples choose, and for each
// adapter with initial values that depend on weights an entry point that sets them; all fill in
// Plan::adapters. None without adapters.
std::vector<WriteEntryPoint> adapter_entry_points(const Plan& plan);

}  // namespace plait::plan
