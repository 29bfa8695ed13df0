// A plan as JSON.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/plan.hpp"

namespace plait::plan {

// Memory of a machine that ranks share through a backend.
struct SharedMemoryUse {
  std::string backend;
  uint32_t ranks = 0, groups = 0;  // groups: counted once per rank
  uint64_t bytes = 0;
  uint64_t available = UINT64_MAX;  // not known
};

// The description that `plait plan` and other tools read. shared: with all ranks on one machine.
std::string describe(const Plan& plan, const std::vector<SharedMemoryUse>& shared = {});

}  // namespace plait::plan
