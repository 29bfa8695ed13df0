#include "engine/topology/topology_error.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::topology {

void raise_if_any(const std::vector<TopologyError>& errors) {
  if (errors.empty()) return;
  std::vector<std::string> texts;
  for (const TopologyError& fault : errors) texts.push_back(fault.text());
  fail_config(join(texts, "\n"));
}

}  // namespace plait::topology
