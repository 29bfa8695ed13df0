// Files of samples that `plait data show` takes without an experiment.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace plait::cli {

// The dataset that reads a file, as TOML: csv, npy, npz, safetensors or idx by its name, images for a
// folder of folders of images; nullopt: it is something else. options: KEY=VALUE, in place of what would be chosen.
// Errors: CliError for an option without "=".
std::optional<std::string> dataset_of_file(const std::string& path,
                                           const std::vector<std::string>& options);

}  // namespace plait::cli
