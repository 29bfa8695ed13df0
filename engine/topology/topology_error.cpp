#include "engine/topology/topology_error.hpp"

#include <utility>

#include "engine/base/text.hpp"

namespace plait::topology {
namespace {

std::string text_of(const std::vector<TopologyError>& errors) {
  std::vector<std::string> texts;
  for (const TopologyError& fault : errors) texts.push_back(fault.text());
  return join(texts, "\n");
}

}  // namespace

InvalidTopology::InvalidTopology(std::vector<TopologyError> errors)
    : Error(PLAIT_ERR_CONFIG, text_of(errors)), errors_(std::move(errors)) {}

void raise_if_any(const std::vector<TopologyError>& errors) {
  if (!errors.empty()) throw InvalidTopology(errors);
}

}  // namespace plait::topology
