// A rule that makes parameters of parameters on demand: adapters merged into weights, initial
// values that depend on weights.
//
// It is written for global tensors, as if there were one rank, and then copied into a program with
// other rules. Tensor ranks share the work as that of the layers, or each does all of it: then the
// bits of the result are the same on every grid. With ZeRO 3 the program gathers what its rules
// read (gather_parameters), and every replica keeps its own part of what they make; in all other
// cases the replicas compute the same.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/frozen_numbers.hpp"
#include "engine/plan/halves.hpp"
#include "engine/plan/plan_draft.hpp"
#include "engine/program/shard.hpp"

namespace plait::plan {

class ParameterRule {
 public:
  enum class Work : uint8_t { kShared, kRepeated };  // among tensor ranks
  ParameterRule(const Plan& plan, std::string name, Work work);

  program::Graph& graph() { return *graph_; }
  // The parameter as layers see it, in global shape and Precision::compute; each time the same
  // value.
  program::ValueId read(const Parameter& p);
  // Whose value this is; nullptr: none that was read.
  const Parameter* parameter_of(program::ValueId v) const;
  // What the parameter becomes: of its dims.
  void write(const Parameter& p, program::ValueId v) { writes_.push_back({&p, v}); }
  // Whether the pipeline ranks that hold what it writes are the same for all of it, and hold what
  // it reads; and whether this one holds all.
  bool is_together() const;
  bool is_held() const;

 private:
  friend class ParameterProgram;
  struct Read {
    const Parameter* parameter;
    program::ValueId stored, value;  // as it lies, and as layers see it
  };
  struct Write {
    const Parameter* parameter;
    program::ValueId value;
  };
  void shard(PlanDraft& plan);
  void gather_and_slice(PlanDraft& plan);
  // The program of one tensor rank in place of graph_.
  std::vector<program::ValueId> shard_graph(PlanDraft& plan, const program::Graph& whole,
                                            const std::vector<program::RequestedValue>& requested);

  const Plan& plan_;
  std::string name_;
  Work work_;
  std::unique_ptr<program::Graph> graph_;
  std::vector<Read> reads_;
  std::vector<Write> writes_;
};

// A program of such rules for this rank. No rule reads what another one writes.
class ParameterProgram {
 public:
  ParameterProgram(PlanDraft& plan, std::string name);
  // The ranks of a tensor group add the same rules in the same order.
  void add(ParameterRule rule);
  bool empty() const { return graph_->ops().empty(); }
  // Adds the program to the draft; returns its index.
  int32_t finish();

 private:
  // Where a parameter lies here: as a value, or as what it is made of.
  struct Place {
    program::ValueId value = 0;
    SplitValue halves;
    NumberedValue numbers;
  };
  const Place& place_of(const Parameter& p);
  void assign(const Parameter& p, program::ValueId v);
  void assign_own_part(const Parameter& p, program::ValueId v);

  PlanDraft& plan_;
  std::string name_;
  std::unique_ptr<program::Graph> graph_;
  std::map<const Parameter*, Place> places_;
};

}  // namespace plait::plan
