// The update of one parameter as a whole (tensor_rule.hpp): optimizers with PLAIT_SCOPE_TENSOR, and
// those of parameters for which a PEFT method has rules.
#pragma once

#include <vector>

#include "engine/plan/halves.hpp"
#include "engine/plan/plan_draft.hpp"
#include "engine/plan/round_weights.hpp"

namespace plait::plan {

// Sets the states of a parameter, and gives those that this rank updates their places. On every
// rank, also on those that do not hold the parameter: all must know its states. Errors: what the
// optimizer returns; PLAIT_ERR_PLUGIN where a result has the wrong shape.
void declare_tensor_states(PlanDraft& plan, const ParameterGroup& group, Parameter& parameter);

// What a rule reads: of this rank, values of the update program.
struct TensorUpdateInputs {
  program::ValueId parameter = 0, gradient = 0;  // local_shape()
  program::ValueId scale = 0;   // (): factor on the gradient, from sums to the mean, clipped
  program::ValueId finite = 0;  // (): 1 or 0; nothing changes with 0
  program::ValueId learning_rate = 0, schedule_factor = 0, step = 0;  // ()
  program::ValueId count = 0;  // (): step, as weights are rounded with it
  // Where a split parameter lies; becomes what it is then. nullptr: it is not split.
  SplitValue* split = nullptr;
};

// What an update leaves in a parameter or a state; next 0: it stays.
struct NextValue {
  program::ValueId target = 0, next = 0;
  Rounded rounded = {};  // what the target is, where it has 16 bits
};
// What the optimizer makes of a parameter that this rank owns, not assigned so far.
struct TensorUpdate {
  program::ValueId parameter = 0;
  std::vector<NextValue> states;  // as Parameter::states
};
TensorUpdate begin_tensor_update(program::Graph& g, PlanDraft& plan, const ParameterGroup& group,
                                 const Parameter& parameter, const TensorUpdateInputs& in);
// Assigns it. Returns the parameter as it is then.
program::ValueId finish_tensor_update(program::Graph& g, const Plan& plan,
                                      const Parameter& parameter, const TensorUpdateInputs& in,
                                      const TensorUpdate& made);
// Both.
program::ValueId write_tensor_update(program::Graph& g, PlanDraft& plan,
                                     const ParameterGroup& group, const Parameter& parameter,
                                     const TensorUpdateInputs& in);

// Assigns them; a step that is not finite changes nothing, on every rank alike. All are chosen
// before the first is assigned, since a next value may be an old one: a state that keeps the
// parameter of the step before. copy (0: none) becomes what the first target does. Returns the
// first target as it is then. rounded: of which elements they are, to round targets of 16 bits
// stochastically; nullptr: to the nearest. split (nullptr: it is not): the halves that the first
// target was joined from, and is written to; they become what they are then.
program::ValueId assign_if_finite(program::Graph& g, program::ValueId finite,
                                  const std::vector<NextValue>& all, program::ValueId copy = 0,
                                  const Plan* plan = nullptr,
                                  const RoundedElements* rounded = nullptr,
                                  SplitValue* split = nullptr);

}  // namespace plait::plan
