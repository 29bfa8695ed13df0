// A rule over one parameter as a whole, by an optimizer or a PEFT method.
//
// It is written into a program of its own, for the global tensor, as if there were one rank. That
// program is sharded among the tensor ranks as the one of the layers is, and then copied into the
// update program.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/plan/plan_draft.hpp"
#include "engine/program/c_builder.hpp"

namespace plait::plan {

class TensorRule {
 public:
  struct StateUse {
    TensorState state;
    program::ValueId current = 0, next = 0;  // next 0: it stays as it is
    program::ValueId read = 0;               // current, as the rule sees it
  };

  // scope: of its ops. author: "[plugin x] optimizer 'y'", for messages. prefix: of the names of
  // its states. known: states that a rule before it has; its own follow them.
  TensorRule(const Plan& plan, const Parameter& parameter, std::string scope, std::string author,
             std::string prefix = {}, const std::vector<TensorState>& known = {});

  // States that lie as the parameter does, element by element, are kept as kLowState; the rule sees
  // f32. Before it is written.
  void keep_low_states() { low_states_ = true; }

  program::Graph& graph() { return *graph_; }
  // The next input. like_parameter: sharded as the parameter is; else replicated.
  program::ValueId input(const std::string& name, const plait_shape& shape,
                         bool like_parameter = false);
  // For a builder; holds as long as the rule stays where it is.
  program::BuildHooks hooks();
  // The next result. 0: none.
  void result(program::ValueId v, bool like_parameter) { results_.push_back({v, like_parameter}); }
  // Becomes the program of one rank.
  void shard(PlanDraft& plan);
  // Copies it into g. inputs, states: values of g, in their order. Returns the results; next[i]:
  // what state i becomes, 0: it stays.
  std::vector<program::ValueId> write(program::Graph& g,
                                      const std::vector<program::ValueId>& inputs,
                                      const std::vector<program::ValueId>& states,
                                      std::vector<program::ValueId>& next) const;

  const std::vector<StateUse>& states() const { return states_; }
  program::ValueId result_at(size_t i) const { return results_.at(i).value; }
  [[noreturn]] void malformed(const std::string& what) const;
  // Errors: PLAIT_ERR_PLUGIN for an id that the author returned and that is no value.
  void check_value(program::ValueId v) const;

 private:
  struct Port {
    program::ValueId value;
    bool like_parameter;
  };
  program::ValueId state(const plait_state& s);
  void set_state(const std::string& name, program::ValueId v);
  void check_state(const plait_state& s) const;
  int32_t shard_dim_of(const plait_state& s) const;
  bool is_like_parameter(const plait_state& s) const;
  StateUse* find(const std::string& name);

  const Plan& plan_;
  const Parameter& parameter_;
  std::string author_, prefix_;
  bool low_states_ = false;
  std::unique_ptr<program::Graph> graph_;
  std::vector<Port> inputs_, results_;
  std::vector<StateUse> states_;
};

// Sets the places of states that this rank updates. On every rank, also on those that do not hold
// the parameter: all must know its states.
void declare_rule_states(PlanDraft& plan, const ParameterGroup& group, Parameter& parameter,
                         const TensorRule& rule);

}  // namespace plait::plan
