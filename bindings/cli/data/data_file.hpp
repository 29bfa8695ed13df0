// Files of samples that `plait data show` takes without an experiment.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace plait::cli {

// The dataset that reads a file, as TOML: csv, npy, npz, safetensors or idx by its name, images for
// a folder of folders of images; nullopt: it is something else. options: KEY=VALUE, in place of
// what would be chosen. Errors: CliError for an option without "=".
std::optional<std::string> dataset_of_file(const std::string& path,
                                           const std::vector<std::string>& options);

// Files of the dataset idx in a folder, as MNIST's: the name is what stands in front of the part
// that they have in common.
struct IdxSet {
  std::string name;            // "train"
  std::string images, labels;  // paths; "" if there is none
  const std::string& path() const { return images.empty() ? labels : images; }
};
// By name; empty of a folder that is none, that has no such files, or that has an experiment.toml.
std::vector<IdxSet> idx_sets(const std::string& folder);

// A folder as the dataset images reads it: its folders are classes.
struct ClassFolders {
  std::vector<std::string> names;  // sorted; empty if none of them has an image by its name
  int64_t images = 0;              // in them; of many some
};
ClassFolders class_folders(const std::string& path);

// Images that are not in folders of their classes.
enum class LooseImages { kNone, kOne, kFolder, kEmpty };
// kOne: the path is an image by its name; kFolder: a folder that holds some; kEmpty: one without
// anything.
LooseImages loose_images(const std::string& path);

}  // namespace plait::cli
