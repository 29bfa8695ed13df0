// Copies of parameters in the type that products compute in (Precision::low). Layers, checkpoints
// and hosts see the f32 parameter alone: the update program writes the copies, and `refresh_low`
// does after any other change. Copies that are halves of their parameters (halves.hpp) are written
// with them, and never made anew.
#pragma once

#include <memory>

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/step_programs.hpp"

namespace plait::plan {

// Notes which parameters a program casts. When all parameters are known, before they are laid out.
void note_low_reads(PlanDraft& plan, const TracedModels& traced);
// Reads the copies in place of casts of parameters. With ZeRO 3 there are none: parameters are
// gathered in f32, and cast where they are read.
void read_low_copies(const Plan& plan, TracedStep& step);
// The copy of a group's elements from `first` on, shaped as `parameters`; 0: there is none beside
// the parameters.
program::ValueId low_copy(program::Graph& g, const ParameterGroup& group, int64_t first,
                          const plait_shape& parameters);
// Makes it anew from `parameters`, if there is one.
void update_low_copy(program::Graph& g, const ParameterGroup& group, int64_t first,
                     program::ValueId parameters);
// Writes the program that makes all copies anew; without ops where there are none.
std::unique_ptr<program::Graph> write_refresh_low(const Plan& plan);

}  // namespace plait::plan
