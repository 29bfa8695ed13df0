// Weights of generation as numbers of 8 bits (generate.weights). The programs prefill and decode
// read them where a product reads rows of a parameter; layers, checkpoints and hosts see the
// parameter alone, and an entry point of their own makes them anew behind any change of it.
//
// Each tensor rank quantizes its own part of a parameter. Blocks of columns begin at its first
// column, so parts along rows, and along multiples of 32 columns, have the numbers of the whole.
#pragma once

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/step_programs.hpp"

namespace plait::plan {

// Whether prefill and decode read 8 bits.
bool quantizes(const Plan& plan);
// Lets the products of a program of generation read them; makes their memory where it is the first.
void read_quantized_weights(PlanDraft& plan, TracedStep& step);
// The entry point that quantizes; without launches where nothing is. Behind those that read.
EntryPoint write_quantize(const EntryPointSource& from);

}  // namespace plait::plan
