// Frozen parameters as small numbers with scales alone (precision.frozen = "int8" or "nf4"; QLoRA,
// Dettmers et al. 2023, arXiv:2305.14314). Products read the numbers in both directions
// (program/quantize.hpp); whatever else reads such a weight, as the norms of DoRA, reads it made
// whole for that op. Hosts and files see floats, which session/block_access.* makes and reads;
// checkpoints leave these parameters out, for numbers of numbers would differ.
//
// Each tensor rank quantizes its own part of a parameter: see quantized_weights.hpp.
#pragma once

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/step_programs.hpp"
#include "kit/quantized.hpp"

namespace plait::plan {

// Chooses the parameters: frozen ones of two dimensions that products read and no table is. When
// all are known, before note_low_reads().
void note_frozen_numbers(PlanDraft& plan, const TracedModels& traced);
// What a row of the parameter's numbers is; the shapes of what this rank has of them.
kit::QuantRow row_of(const Plan& plan, const Parameter& p);
plait_shape numbers_shape(const Plan& plan, const Parameter& p);
plait_shape scales_shape(const Plan& plan, const Parameter& p);

// Numbers and scales as values of a program.
struct NumberedValue {
  program::ValueId numbers = 0, scales = 0;
};
NumberedValue numbers_of(program::Graph& g, const Plan& plan, const Parameter& p);
// The weight as floats, as this rank has it.
program::ValueId dequantized(program::Graph& g, const Plan& plan, const Parameter& p,
                             const NumberedValue& v);
// Writes `weight`, of this rank's shape, over the numbers.
void assign_numbers(program::Graph& g, const Parameter& p, const NumberedValue& target,
                    program::ValueId weight);
// Lets a sharded program read numbers. Before read_low_copies().
void read_frozen_numbers(const Plan& plan, TracedStep& step);

}  // namespace plait::plan
