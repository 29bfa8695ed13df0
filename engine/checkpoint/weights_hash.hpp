// A hash of weights, by which a checkpoint names the ones that it is loaded beside.
#pragma once

#include <string>

#include "engine/base/files.hpp"
#include "engine/base/hash.hpp"

namespace plait::checkpoint {

// Of all bytes of files of weights; of the parameters of a checkpoint by the hashes that its
// manifest has. Errors: of Weights, Checkpoint, choose_checkpoint.
Hash128 hash_of_weights(FileSystem& files, const std::string& path);

}  // namespace plait::checkpoint
