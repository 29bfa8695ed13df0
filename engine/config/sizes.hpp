// Sizes of [topology] and [batch] that follow from the others.
#pragma once

#include <cstdint>

#include "engine/config/experiment.hpp"
#include "engine/config/problem.hpp"

namespace plait::config {

// Whether an axis is 0: it follows from the number of ranks, which only a job knows.
bool has_open_axis(const TopologyConfig& topology);
// Adds a problem if more than one axis is.
void check_open_axes(const Experiment& e, Problems& problems);
// Gives that axis what the other axes leave of `ranks`, the number that was started (0: unknown,
// and the axis is 1). False, with a problem: they do not divide it; the axis is 1 then.
bool close_axis(Experiment& e, int64_t ranks, Problems& problems);

// Derives the missing sizes of [batch] from the number of replicas. Sizes that do not fit each
// other stay unchanged: engine/topology reports them when the plan is made, with the nearest valid
// choice.
void derive_batch(Experiment& e, Problems& problems);

}  // namespace plait::config
