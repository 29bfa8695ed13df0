#include "engine/config/paths.hpp"

#include "engine/base/files.hpp"

namespace plait::config {

std::vector<std::string> PathResolver::candidates(const std::string& path) const {
  if (path.empty() || is_absolute(path)) return {path};
  std::vector<std::string> all;
  if (!data_folder.empty()) all.push_back(join_path(data_folder, path));
  if (!experiment_folder.empty()) all.push_back(join_path(experiment_folder, path));
  if (all.empty()) all.push_back(path);
  return all;
}

std::string PathResolver::resolve(const std::string& path) const {
  if (!files || path.empty()) return path;
  for (const std::string& candidate : candidates(path))
    if (files->exists(candidate)) return candidate;
  return path;
}

}  // namespace plait::config
