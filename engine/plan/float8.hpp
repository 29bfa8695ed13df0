// Products of 8-bit floats as an experiment asks for them: precision.products = "fp8" and
// [precision.fp8]. What they do to a program is in program/float8.hpp.
//
// Training, evaluation and observation multiply so. Generation does not: it has `generate.weights`.
#pragma once

#include "engine/plan/step_programs.hpp"

namespace plait::plan {

// Notes the products of a traced graph that are to multiply 8-bit floats; before it is
// differentiated. Throws PLAIT_ERR_CONFIG where there is none.
void mark_float8(const Plan& plan, program::Graph& g, const std::vector<ParameterUse>& uses);
// Makes them do so; behind chunk_rows(), before the graph is sharded.
void multiply_float8(const Plan& plan, program::Graph& g);

}  // namespace plait::plan
