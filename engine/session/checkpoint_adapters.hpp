// Adapters of checkpoints: listed, and added to or left out of one that is written again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/rewrite.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/config/experiment.hpp"
#include "engine/session/adapter_record.hpp"

namespace plait::session {

struct StoredAdapter {
  std::string model, name;               // names, not paths
  int64_t elements = 0;                  // of its parameters
  uint64_t bytes = 0;                    // likewise
  std::vector<RecordedAdapter> entries;  // of the experiment
  std::vector<std::string> targets;      // what it changes
  std::vector<const checkpoint::TensorRecord*> parameters, states;
};

// In the order of the experiment. The manifest must stay.
std::vector<StoredAdapter> stored_adapters(const checkpoint::Manifest& manifest);

// A checkpoint and the experiment that it was saved with.
struct CheckpointOf {
  const checkpoint::Checkpoint& checkpoint;
  config::Experiment experiment;
};

// Both return what the new checkpoint holds, and change the experiment of `from`, which the caller
// writes into NewContent::state. model: "": the only one. Errors: see adapters.h.
checkpoint::NewContent with_adapter(CheckpointOf& from, const std::string& model,
                                    const std::string& name, const CheckpointOf& other);
checkpoint::NewContent without_adapter(CheckpointOf& from, const std::string& model,
                                       const std::string& name);

}  // namespace plait::session
