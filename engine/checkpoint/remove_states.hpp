// Takes the states of the optimizer out of a committed checkpoint, which is whole without them: it
// serves to evaluate, generate and export, and to load weights.
#pragma once

#include <string>

#include "engine/base/files.hpp"

namespace plait::checkpoint {

// Renames a manifest without the states to its place, and then deletes their files. Interrupted
// anywhere, the checkpoint is whole, with states or without, and at most files are left that no
// manifest names; the same call removes these. It reads the names of the files and, unless there is
// nothing to remove, the manifest; no tensors.
// Errors: PLAIT_ERR_DATA and PLAIT_ERR_UNIMPLEMENTED, as of read_manifest(); PLAIT_ERR_IO.
void remove_states(FileSystem& files, const std::string& folder);
// Removes only files that the manifest does not name. Errors: as above.
void remove_leftover_states(FileSystem& files, const std::string& folder);

}  // namespace plait::checkpoint
