// What a plan says of its pipeline: stages, costs, how long ranks wait. By operations alone: messages count nothing.
#pragma once

#include "engine/base/json.hpp"
#include "engine/plan/plan.hpp"

namespace plait::plan {

// The object "pipeline"; nothing without one.
void describe_pipeline(JsonWriter& w, const Plan& plan);

// Says so when there are fewer micro-batches than ranks: most of them then wait most of the time. On rank 0 only.
void warn_idle(const Plan& plan, Log* log);

}  // namespace plait::plan
