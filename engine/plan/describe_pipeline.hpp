// Describes the pipeline of a plan: stages, costs, idle time. Counts operations only; communication
// is free.
#pragma once

#include <string>

#include "engine/base/json.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

// Writes the object "pipeline"; nothing if there is no pipeline.
void describe_pipeline(JsonWriter& w, const Plan& plan);

// The pipeline's schedule as SVG, its times in operations. Errors: PLAIT_ERR_STATE without a
// pipeline.
std::string schedule_svg(const Plan& plan);

// The fraction of a step in which each pipeline rank idles; 0 without a pipeline.
std::vector<double> idle_of_ranks(const Plan& plan);

// Warns if there are fewer micro-batches than ranks, in which case most ranks idle most of the
// time. On rank 0 only.
void warn_idle(const Plan& plan, Log* log);

}  // namespace plait::plan
