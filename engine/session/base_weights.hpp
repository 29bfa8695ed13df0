// The weights that a checkpoint of what was trained is loaded beside (checkpoint.save).
#pragma once

#include <vector>

#include "engine/base/files.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/plan/plan.hpp"

namespace plait::session {

// What the checkpoints of a run leave out, and where it is: empty if they hold all parameters.
// Reads all of it, for its hash.
std::vector<checkpoint::BaseRecord> bases_of(const plan::Plan& plan, FileSystem& files);

// Whether a checkpoint leaves a parameter to the weights of model.load.
bool in_base(const checkpoint::RunState& state, const std::string& parameter);

// Errors: PLAIT_ERR_CONFIG where model.load does not name the weights that the checkpoint needs.
void check_bases(const plan::Plan& plan, const checkpoint::Checkpoint& c, FileSystem& files);

}  // namespace plait::session
