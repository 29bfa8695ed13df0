// A hash of weights, by which a checkpoint names the ones that it is loaded beside: of their bytes
// and types, and of the parameter that each of them is. rules: of model.load_names.
#pragma once

#include <string>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/hash.hpp"
#include "engine/checkpoint/store.hpp"
#include "engine/checkpoint/weights.hpp"

namespace plait::checkpoint {

// Of the parameters of a checkpoint, by the hashes that its manifest has.
Hash128 hash_of_checkpoint(const Checkpoint& from, const std::vector<std::string>& rules);

// Of all bytes of the files, and of the place that a map of tensors gives each parameter. Reads the
// files that are open, whatever their paths lead to by now. Errors: as SafetensorsFile::read().
Hash128 hash_of_files(const Weights& from, const std::vector<std::string>& rules);

// Of what a path that can be loaded names. Errors: of Weights, Checkpoint, choose_checkpoint.
Hash128 hash_of_weights(FileSystem& files, const std::string& path,
                        const std::vector<std::string>& rules);

}  // namespace plait::checkpoint
