// Resolution of relative paths in a configuration.
#pragma once

#include <string>
#include <vector>

namespace plait {
class FileSystem;
}

namespace plait::config {

// A relative path is looked up in the data folder, then beside the experiment file.
struct PathResolver {
  FileSystem* files = nullptr;    // NULL: nothing is looked up, paths stay unchanged
  std::string data_folder;        // "" : none
  std::string experiment_folder;  // "" : none

  // All candidate paths, in the order of the search.
  std::vector<std::string> candidates(const std::string& path) const;
  // The first candidate that exists, or `path` itself if none does.
  std::string resolve(const std::string& path) const;
};

}  // namespace plait::config
