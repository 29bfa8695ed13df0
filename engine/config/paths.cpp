#include "engine/config/paths.hpp"

#include <algorithm>

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

std::vector<std::string> PathResolver::in_sets(const std::string& path) const {
  if (!files || path.empty() || is_absolute(path) || data_folder.empty() ||
      !files->is_folder(data_folder))
    return {};
  std::vector<std::string> found;
  std::vector<std::string> names = files->list(data_folder);
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const std::string set = join_path(data_folder, name);
    if (files->is_folder(set) && files->exists(join_path(set, path)))
      found.push_back(join_path(set, path));
  }
  return found;
}

std::string PathResolver::resolve(const std::string& path) const {
  if (!files || path.empty()) return path;
  for (const std::string& candidate : candidates(path))
    if (files->exists(candidate)) return candidate;
  const std::vector<std::string> found = in_sets(path);
  return found.size() == 1 ? found[0] : path;
}

}  // namespace plait::config
