#include "engine/plan/recompute_budget.hpp"

#include <algorithm>

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"
#include "engine/topology/topology_error.hpp"

namespace plait::plan {

DraftSnapshot::DraftSnapshot(PlanDraft& plan) : plan_(plan) {
  if (plan.experiment.topology.recompute == "budget") before_.emplace(plan);
}

void DraftSnapshot::restore() const {
  if (before_) plan_ = *before_;
}

namespace {

[[noreturn]] void refuse(const std::vector<BudgetedProgram>& all,
                         const std::vector<uint64_t>& least, uint64_t budget) {
  // Each program may fit on its own, but not all with the same values recomputed.
  const bool any = std::any_of(least.begin(), least.end(), [&](uint64_t n) { return n > budget; });
  std::vector<std::string> takes;
  for (size_t i = 0; i < all.size(); ++i)
    if (least[i] > budget || !any)
      takes.push_back(human_bytes(least[i]) + " at least" + all[i].where);
  throw topology::InvalidTopology(
      {{"topology.recompute_budget",
        "the activations of the training program take " + join(takes) +
            ", even with full recomputation; topology.recompute_budget allows " +
            human_bytes(budget),
        "raise it, or lower batch.micro"}});
}

}  // namespace

void solve_recompute_budget(const config::TopologyConfig& topology,
                            std::vector<BudgetedProgram> all) {
  RecomputeOptions recompute{topology.recompute, topology.recompute_flops, 0, 0};
  if (topology.recompute != "budget") {
    for (const BudgetedProgram& one : all) one.attempt(recompute);
    return;
  }
  const auto budget = static_cast<uint64_t>(topology.recompute_budget * (1 << 20));
  std::vector<uint64_t> least(all.size(), UINT64_MAX);
  const auto fits = [&] {
    bool within = true;
    for (size_t i = 0; i < all.size(); ++i) {
      const uint64_t bytes = all[i].attempt(recompute);
      least[i] = std::min(least[i], bytes);
      within &= bytes <= budget;
    }
    return within;
  };
  if (fits()) return;
  // Searches the smallest number that fits, in at most kAttempts attempts: each takes time, and
  // neighbours differ little.
  constexpr size_t kAttempts = 64;
  const size_t n = recompute.candidates,
               stride = std::max<size_t>(1, (n + kAttempts - 1) / kAttempts);
  for (recompute.n_cheapest = stride; recompute.n_cheapest < n + stride;
       recompute.n_cheapest += stride)
    if (fits()) return;
  refuse(all, least, budget);
}

std::unique_ptr<PlanDraft> clone_for_stage(const PlanDraft& plan, int32_t pipeline) {
  auto clone = std::make_unique<PlanDraft>(plan);
  clone->at.pipeline = pipeline;
  clone->rank = plan.grid.rank(clone->at);
  clone->groups.clear();
  clone->frozen_groups.clear();
  clone->collectives.clear();
  clone->programs.clear();
  for (Parameter& p : clone->parameters) {
    p.holders.clear();
    p.chunk = p.bucket = 0;
    p.group = p.frozen_group = -1;
    p.flat_offset = 0;
    p.value = p.gradient = p.squares = p.low = p.rest = p.numbers = p.scales = {};
  }
  return clone;
}

}  // namespace plait::plan
