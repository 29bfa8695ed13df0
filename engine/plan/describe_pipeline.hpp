// Describes the pipeline of a plan: stages, costs, idle time. Counts operations only; communication
// is free.
#pragma once

#include "engine/base/json.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

// Writes the object "pipeline"; nothing if there is no pipeline.
void describe_pipeline(JsonWriter& w, const Plan& plan);

// Warns if there are fewer micro-batches than ranks, in which case most ranks idle most of the
// time. On rank 0 only.
void warn_idle(const Plan& plan, Log* log);

}  // namespace plait::plan
