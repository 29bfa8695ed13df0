// The loss scale of f16: gradients below its least number would be lost, so the backward pass
// begins
// with a large one. A step whose gradients overflow is skipped, as any that is not finite, and the
// scale shrinks; after many good steps it grows.
//
// Plan::scaler holds kScalerNumbers scalars: the scale; steps since it last changed or a step
// overflowed; overflows until it shrinks; and what the backward pass begins with, the scale over
// Plan::loss_rows, so that the scale means what it does where the loss is a mean.
#pragma once

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/trace.hpp"

namespace plait::plan {

inline constexpr int64_t kScalerNumbers = 4;

// Allocates it where [precision] needs one. After Plan::results exists.
void make_loss_scale(PlanDraft& plan);
// Sets Plan::loss_rows.
void note_loss_rows(PlanDraft& plan, const Tracer& traced);
// What the backward pass begins with; 0: with 1.
program::ValueId loss_seed(program::Graph& g, const Plan& plan);
// Appends to the update program what a step makes of the scale; behind all that reads it.
void update_loss_scale(program::Graph& g, const Plan& plan, program::ValueId finite);

}  // namespace plait::plan
