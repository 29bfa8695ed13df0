// Selects the activations that the training step recomputes, so that the kept ones fit in
// topology.recompute_budget.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/plan_draft.hpp"
#include "engine/plan/step_programs.hpp"

namespace plait::plan {

// A draft before an attempt to write programs. Each further attempt begins with it again.
class DraftSnapshot {
 public:
  explicit DraftSnapshot(PlanDraft& plan);
  void restore() const;

 private:
  PlanDraft& plan_;
  std::optional<const PlanDraft> before_;  // only if several attempts may be made
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

// The draft of another rank of the pipeline, as far as writing its training step needs it: its
// parameters are not laid out yet.
std::unique_ptr<PlanDraft> clone_for_stage(const PlanDraft& plan, int32_t pipeline);

}  // namespace plait::plan
