// Selects the activations that the training step recomputes, so that the kept ones fit in
// topology.recompute_budget.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/plan/step_programs.hpp"

namespace plait::plan {

// The parts of a plan that an attempt to write the training step adds or sets; restored before the
// next attempt.
class PlanSnapshot {
 public:
  explicit PlanSnapshot(Plan& plan);
  void operator()() const;

 private:
  Plan& plan_;
  const Storage storage_;
  const std::vector<Model> models_;
  const std::vector<Parameter> parameters_;
  const size_t collectives_, programs_, launches_, feeds_;
};

// A program whose activations must fit in the budget.
struct BudgetedProgram {
  std::string where;  // " in stage 1", for messages; "" if there is only one
  std::function<uint64_t(RecomputeOptions&)>
      attempt;  // writes its programs; returns the bytes of their activations
};

// Writes the programs with more and more recomputation until all fit in the budget; once if there
// is no budget. Every rank of a pipeline evaluates the programs of all ranks, so all ranks reach
// the same result: they recompute the same values, or all refuse. Errors: topology::InvalidTopology
// naming the programs that exceed the budget even with full recomputation.
void solve_recompute_budget(const config::TopologyConfig& topology,
                            std::vector<BudgetedProgram> all);

// The plan of another rank of the pipeline, as far as writing its training step needs it:
// parameters have buffer references, but no memory is assigned. Borrows nothing.
std::unique_ptr<Plan> clone_for_stage(const Plan& plan, int32_t pipeline);

}  // namespace plait::plan
