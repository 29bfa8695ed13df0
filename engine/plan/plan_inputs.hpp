// What a plan is made for: the grid and the rank, the device, the datasets. Faults of the
// experiment are added to `problems`.
#pragma once

#include "engine/plan/plan_builder.hpp"
#include "engine/plan/plan_draft.hpp"

namespace plait::plan {

// Sets the grid and the coordinates of this rank. After problems the grid is a single rank with the
// smallest batches, so that the rest of the experiment can be checked.
void choose_grid(PlanDraft& plan, const PlanContext& context, config::Problems& problems);
// Whether an item of this plugin may be chosen where the experiment says "auto": plugins.allow is
// empty or has it.
bool is_allowed(const Plan& plan, const std::string& plugin);

// The device of the experiment; with "auto" the device of the highest priority that can be opened
// here.
void choose_device(PlanDraft& plan, const PlanContext& context, config::Problems& problems);
// A rank in the middle of a pipeline, which reads samples only in unusual models, opens them for
// their descriptions.
void open_datasets(PlanDraft& plan, const PlanContext& context, config::Problems& problems);
// Behind the entry points: a rank whose programs read no samples keeps descriptions alone, and one
// whose programs do has opened its datasets. Errors: those of opening them.
void keep_samples_read(PlanDraft& plan);
// The micro-batches of a step, and the steps of the run; warns of a batch that is larger than the
// dataset. After the datasets.
void count_steps(PlanDraft& plan, const PlanContext& context);

}  // namespace plait::plan
