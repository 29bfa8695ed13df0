// What a run of a plan would refuse before its first step, or in it, as far as that is known
// without a device and without reading samples or weights.
#pragma once

#include "engine/base/files.hpp"
#include "engine/config/problem.hpp"
#include "engine/plan/plan.hpp"

namespace plait::session {

// Adds the errors of a run as problems of the keys that they are about: topology.backend; load of
// models and adapters, whose headers are read; a [data.train] without samples; classes of datasets
// that no output of the model, or no row of an embedding, stands for. [blocks: on files]
void check_run(const plan::Plan& plan, FileSystem& files, config::Problems& problems);

}  // namespace plait::session
