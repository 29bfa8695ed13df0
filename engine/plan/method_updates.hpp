// What PEFT methods do behind the optimizer's update: plait_peft_item.score and update.
//
// The rules of a method are written for each parameter of its adapter, as the rules of an optimizer
// that sees whole tensors are (tensor_rule.hpp). What score() gives of all parameters of a target
// is added, and the scores of all targets are gathered over the ranks that own one: each fills in
// what it has, and all are summed. Then update() changes the parameters, and all of it is assigned
// at once.
//   T targets of an adapter, n scores of each
#pragma once

#include <plait/peft.h>

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/tensor_update.hpp"

namespace plait::plan {

// Whether the method has such rules.
bool has_rules(const plait_peft_item& method);
// Whether the parameter's method has, so that it is updated as a whole.
bool has_method_rules(const PlanDraft& plan, const Parameter& parameter);

// Adds the states of methods to the states of the parameters, behind the optimizer's, and sets
// MethodParameter::n_scores. Errors: what a method returns; PLAIT_ERR_PLUGIN where a result has the
// wrong shape.
void declare_method_states(PlanDraft& plan);

// In the update program: the rules of the adapters of one model.
class MethodUpdates {
 public:
  MethodUpdates(program::Graph& g, PlanDraft& plan, const std::string& model);

  // A parameter that this rank owns, and what its optimizer makes of it.
  void add(const Parameter& p, const TensorUpdateInputs& in, TensorUpdate made);
  // Behind the last add(), on every rank of the job alike.
  void gather();
  // Then, for each that was added: writes what follows. The parameter as it is then; of a split one
  // its halves.
  struct Written {
    program::ValueId value = 0, rest = 0;
  };
  Written write(const Parameter& p);

 private:
  struct Pending {
    const Parameter* parameter;
    TensorUpdateInputs in;
    SplitValue halves;  // in.split, of a split one
    TensorUpdate made;
    program::ValueId scores;
  };
  program::ValueId gather_scores(const std::string& entry, const std::vector<std::string>& targets);

  program::Graph& g_;
  PlanDraft& plan_;
  const std::string model_;
  std::map<std::string, std::vector<std::string>> targets_;  // by entry
  std::map<std::string, program::ValueId> all_scores_;       // by entry; 0: it has none
  std::deque<Pending> pending_;
};

}  // namespace plait::plan
