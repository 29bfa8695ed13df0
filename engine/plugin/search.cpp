#include "engine/plugin/search.hpp"

#include <dlfcn.h>
#include <plait/plugin.h>
#include <stdlib.h>

#include "engine/base/error.hpp"
#include "engine/base/files.hpp"
#include "engine/base/text.hpp"

namespace plait::plugin {
namespace {

const char kFolderName[] = "plait/plugins-" PLAIT_STR(PLAIT_ABI_VERSION);

}  // namespace

std::string engine_folder() {
  Dl_info info{};
  std::string file;
  if (dladdr(reinterpret_cast<const void*>(&engine_folder), &info) != 0 && info.dli_fname)
    file = info.dli_fname;
  try {
    // A library opened by a relative path is resolved against the current folder; a program's name
    // is argv[0], which does not tell its folder.
    if (!is_absolute(file) &&
        !(file.find('/') != std::string::npos && FileSystem::posix().is_file(file)))
      file = "/proc/self/exe";
    return folder_of(FileSystem::posix().real_path(file));
  } catch (const Error&) {
    return "";
  }
}

std::vector<SearchPath> default_search_paths() {
  std::vector<SearchPath> paths;
  // secure_getenv: a privileged program must not follow variables of its caller.
  if (const char* variable = secure_getenv("PLAIT_PLUGIN_PATH"))
    for (const std::string& path : split(variable, ':'))
      if (!path.empty()) paths.push_back({path, "PLAIT_PLUGIN_PATH", false});
  if (const char* home = secure_getenv("HOME"); home && is_absolute(home))
    paths.push_back({join_path(home, std::string(".local/lib/") + kFolderName), "user", false});
  if (const std::string engine = engine_folder(); !engine.empty())
    paths.push_back({join_path(engine, kFolderName), "engine", false});
  return paths;
}

std::vector<SearchPath> named_search_paths(const std::vector<std::string>& paths,
                                           const std::string& source, const std::string& folder) {
  std::vector<SearchPath> found;
  for (const std::string& path : paths) {
    std::string absolute = join_path(folder, path);
    if (!is_absolute(absolute)) absolute = join_path(FileSystem::posix().real_path("."), absolute);
    found.push_back({absolute, source, true});
  }
  return found;
}

std::vector<std::string> plugin_files(FileSystem& files, const SearchPath& location) {
  if (!files.is_folder(location.path))
    return files.exists(location.path) ? std::vector{location.path} : std::vector<std::string>();
  std::vector<std::string> found;
  for (const std::string& name : files.list(location.path))
    if (name.ends_with(".so")) found.push_back(join_path(location.path, name));
  return found;
}

}  // namespace plait::plugin
