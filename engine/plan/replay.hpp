// Replays the schedule of a plan with measured times: how long a step takes, which ranks wait, and
// what another schedule or another split into stages would give.
//
// Each op of the programs of all stages takes what a profile of the same model measured
// (measured_times.hpp), wherever the profile's layout ran it. What the profile does not have takes
// no time and is listed.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/plan/measured_times.hpp"
#include "engine/plan/plan_builder.hpp"

namespace plait::plan {

// What one rank along the pipeline does in a step, in seconds.
struct RankStep {
  double before = 0;                       // the programs before the first pass of a stage
  std::vector<topology::Duration> passes;  // as Schedule::actions of this rank
  double after = 0;                        // the update
};

struct StepPrediction {
  double seconds = 0;
  double before = 0, after = 0;  // of the rank that takes longest
  topology::Timeline pipeline;   // of the passes; without a pipeline one rank that never waits
};

// All ranks begin their passes when the last of them is ready, and their updates, which wait for
// each other's sums, when the last pass has ended. without a pipeline the passes of the one rank
// follow each other.
StepPrediction predict_step(const topology::Schedule& schedule, const std::vector<RankStep>& ranks,
                            double message_seconds);

// The object that plait_plan_replay() returns, and the picture of the schedule in milliseconds; ""
// without a pipeline. context.rank and context.world are not read. Defects of the experiment are
// added to `problems`; the texts are empty then. Errors: PLAIT_ERR_DATA for a text that is no
// profile; PLAIT_ERR_CONFIG for one of another model, device, sharding or micro-batch; as
// make_plan().
struct ReplayTexts {
  std::string json, svg;
};
ReplayTexts replay(const config::Experiment& experiment, const PlanContext& context,
                   std::string_view profile, config::Problems& problems);

}  // namespace plait::plan
