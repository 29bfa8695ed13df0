#include "engine/plan/plan_draft.hpp"

#include <utility>

namespace plait::plan {

int32_t PlanDraft::add(Program program) {
  programs.push_back(std::move(program));
  return static_cast<int32_t>(programs.size() - 1);
}

int32_t PlanDraft::add(Collective collective) {
  collectives.push_back(std::move(collective));
  return static_cast<int32_t>(collectives.size() - 1);
}

}  // namespace plait::plan
