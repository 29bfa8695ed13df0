// A fault of a layout: a key of the configuration, what was found and expected, and what to do.
// Checks return all faults at once; engine/plan, which knows where a key was set, turns them into
// problems with a position.
#pragma once

#include <string>
#include <vector>

#include "engine/base/error.hpp"

namespace plait::topology {

struct TopologyError {
  std::string key;      // "topology.pipeline"
  std::string message;  // what, found, expected
  std::string hint;     // what to do, with the nearest valid choice
  std::string text() const { return "[topology] " + key + ": " + message + "; " + hint; }
};

// PLAIT_ERR_CONFIG with the texts of all faults, one per line.
class InvalidTopology : public Error {
 public:
  explicit InvalidTopology(std::vector<TopologyError> errors);
  const std::vector<TopologyError>& errors() const { return errors_; }

 private:
  std::vector<TopologyError> errors_;
};

// Throws InvalidTopology. Does nothing if there are no faults.
void raise_if_any(const std::vector<TopologyError>& errors);

}  // namespace plait::topology
