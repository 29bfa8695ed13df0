#include "engine/topology/fault.hpp"

#include "engine/base/error.hpp"
#include "engine/base/text.hpp"

namespace plait::topology {

void raise_if_any(const std::vector<Fault>& faults) {
  if (faults.empty()) return;
  std::vector<std::string> texts;
  for (const Fault& fault : faults) texts.push_back(fault.text());
  fail_config(join(texts, "\n"));
}

}  // namespace plait::topology
