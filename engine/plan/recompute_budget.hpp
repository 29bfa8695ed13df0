// How much the training step makes again, so that what it keeps stays within topology.recompute_budget.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"
#include "engine/plan/step_programs.hpp"

namespace plait::plan {

// What an attempt to write the training step adds to a plan, or sets in it; undone before the next one.
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

// One whose values inside the training step must be within the budget.
struct BudgetedProgram {
  std::string where;  // " in stage 1", for messages; "" where there is one
  std::function<uint64_t(RecomputeOptions&)>
      attempt;  // writes its programs; returns the bytes of the values inside
};

// Has the programs written with ever more made again, until all keep within the budget; without a budget once. All ranks of a pipeline
// ask for all of them, and so come to the same end: they make the same values again, or refuse together. Errors: PLAIT_ERR_CONFIG
// naming those that are above it whatever is made again.
void solve_recompute_budget(const config::TopologyConfig& topology,
                            std::vector<BudgetedProgram> all);

// The plan of another rank of the pipeline, as far as writing its training step takes it: parameters have places, nothing has memory.
// Borrows nothing.
std::unique_ptr<Plan> clone_for_stage(const Plan& plan, int32_t pipeline);

}  // namespace plait::plan
