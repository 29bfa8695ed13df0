// Whether weights that an experiment names can be loaded, before a run needs them.
#pragma once

#include <string>

#include "engine/base/files.hpp"

namespace plait::checkpoint {

// Checks that what `key` (model.load) names is there. Errors: PLAIT_ERR_NOT_FOUND, which says what
// may stand there.
void require_weights(FileSystem& files, const std::string& key, const std::string& path);

// The same, and that it holds weights: opens them without reading their content. Errors: of
// Weights, Checkpoint, choose_checkpoint.
void probe_weights(FileSystem& files, const std::string& key, const std::string& path);

// The same of a checkpoint that a run continues from (run.from).
void probe_checkpoint(FileSystem& files, const std::string& key, const std::string& path);

}  // namespace plait::checkpoint
