#include "engine/config/written_path.hpp"

#include <algorithm>

#include "engine/base/files.hpp"

namespace plait::config {
namespace {

// The folder of a file that is not the experiment's own; "" if there is none.
std::string other_folder(const PathResolver& resolver, const Origin& at) {
  if (at.line <= 0 || resolver.experiment_folder.empty()) return "";
  const std::string folder = folder_of(at.file);
  return folder == resolver.experiment_folder ? "" : folder;
}

// Whether it leads only upward: "." and "..", in any number.
bool is_dots(std::string_view path) {
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    if (!part.empty() && part != "." && part != "..") return false;
    path.remove_prefix(std::min(path.size(), part.size() + 1));
  }
  return true;
}

}  // namespace

bool is_of_current_folder(const std::string& path, const Origin& at) {
  return at.is_override() && !path.empty() && !is_absolute(path) && is_dots(path);
}

std::vector<std::string> folders_of(const PathResolver& resolver, const Origin& at) {
  std::vector<std::string> all;
  for (const std::string& folder :
       {resolver.data_folder, other_folder(resolver, at), resolver.experiment_folder})
    if (!folder.empty() && std::find(all.begin(), all.end(), folder) == all.end())
      all.push_back(folder);
  return all;
}

std::string resolve_written(const PathResolver& resolver, const std::string& path,
                            const Origin& at) {
  if (is_of_current_folder(path, at)) return path;
  PathResolver beside = resolver;
  beside.experiment_folder = other_folder(resolver, at);
  if (!beside.experiment_folder.empty() && resolver.files && !path.empty())
    for (const std::string& candidate : beside.candidates(path))
      if (resolver.files->exists(candidate)) return candidate;
  return resolver.resolve(path);
}

bool is_beside_extended(const PathResolver& resolver, const std::string& path,
                        const std::string& resolved, const Origin& at) {
  const std::string folder = other_folder(resolver, at);
  return !folder.empty() && !is_absolute(path) && resolved == join_path(folder, path);
}

}  // namespace plait::config
