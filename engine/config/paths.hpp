// Where relative paths in a configuration lead.
#pragma once

#include <string>
#include <vector>

namespace plait {
class FileSystem;
}

namespace plait::config {

// Relative paths lie in the data folder, or else beside the experiment file.
struct PathResolver {
  FileSystem* files = nullptr;    // NULL: nothing is looked up, paths stay as they are
  std::string data_folder;        // "" : none
  std::string experiment_folder;  // "" : none

  // All places looked at, in order.
  std::vector<std::string> candidates(const std::string& path) const;
  // The first candidate that exists, or `path` itself when none does.
  std::string resolve(const std::string& path) const;
};

}  // namespace plait::config
