// Resolution of relative paths in a configuration.
#pragma once

#include <string>
#include <vector>

namespace plait {
class FileSystem;
}

namespace plait::config {

// A relative path is looked up in the data folder, then beside the experiment file, then in the
// folders inside the data folder, if one of them alone has it: `plait data get NAME` makes such a
// folder.
struct PathResolver {
  FileSystem* files = nullptr;    // NULL: nothing is looked up, paths stay unchanged
  std::string data_folder;        // "" : none
  std::string experiment_folder;  // "" : none

  // All candidate paths, in the order of the search.
  std::vector<std::string> candidates(const std::string& path) const;
  // Those in folders inside the data folder that exist, by name.
  std::vector<std::string> in_sets(const std::string& path) const;
  // The first candidate that exists, else the only one of in_sets(), or `path` itself if none does.
  std::string resolve(const std::string& path) const;
};

}  // namespace plait::config
