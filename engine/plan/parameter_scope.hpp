// What an optimizer is told of a parameter, and how it is updated: element by element among others,
// or as a whole, as the optimizer wants it or rules of a PEFT method need it.
#pragma once

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/trace.hpp"

namespace plait::plan {

// Sets the PLAIT_PARAMETER_* of all parameters that follow from the training program.
void note_parameter_flags(PlanDraft& plan, const Tracer& training);

// Asks the optimizers for the scope of each trained parameter. Before lay_out_parameters().
// Errors: what a plugin returns; PLAIT_ERR_PLUGIN for a scope that is none.
void choose_scopes(PlanDraft& plan);

// The item by which a parameter is updated, what the experiment says of it, and its plugin's name:
// that of the model's optimizer, or of a group with a type of its own.
struct OptimizerOf {
  const plait_optimizer_item& item;
  const config::ItemConfig& config;
  const std::string& plugin;
};
OptimizerOf optimizer_of(const Plan& plan, const Parameter& parameter);
OptimizerOf optimizer_of(const Plan& plan, const ParameterGroup& group);

// Borrows the name of the parameter.
plait_parameter_info info_of(const Parameter& parameter);

}  // namespace plait::plan
