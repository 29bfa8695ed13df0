#include "engine/plan/entry_point.hpp"

#include <set>

namespace plait::plan {

std::vector<int32_t> EntryPoint::programs() const {
  std::vector<int32_t> all;
  std::set<int32_t> seen;
  for (const Launch& l : launches)
    if (l.program >= 0 && seen.insert(l.program).second) all.push_back(l.program);
  return all;
}

}  // namespace plait::plan
