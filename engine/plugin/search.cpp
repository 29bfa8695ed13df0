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
    // A library opened by a relative path lies there; a program tells what it was called by, not where it lies.
    if (!is_absolute(file) &&
        !(file.find('/') != std::string::npos && FileSystem::posix().is_file(file)))
      file = "/proc/self/exe";
    return folder_of(FileSystem::posix().real_path(file));
  } catch (const Error&) {
    return "";
  }
}

std::vector<SearchPath> default_search_paths() {
  std::vector<SearchPath> places;
  // secure_getenv: a privileged program does not follow its caller's variables.
  if (const char* variable = secure_getenv("PLAIT_PLUGIN_PATH"))
    for (const std::string& path : split(variable, ':'))
      if (!path.empty()) places.push_back({path, "PLAIT_PLUGIN_PATH", false});
  if (const char* home = secure_getenv("HOME"); home && is_absolute(home))
    places.push_back({join_path(home, std::string(".local/lib/") + kFolderName), "user", false});
  if (const std::string engine = engine_folder(); !engine.empty())
    places.push_back({join_path(engine, kFolderName), "engine", false});
  return places;
}

std::vector<SearchPath> named_search_paths(const std::vector<std::string>& paths,
                                           const std::string& source, const std::string& folder) {
  std::vector<SearchPath> places;
  for (const std::string& path : paths) {
    std::string place = join_path(folder, path);
    if (!is_absolute(place)) place = join_path(FileSystem::posix().real_path("."), place);
    places.push_back({place, source, true});
  }
  return places;
}

std::vector<std::string> plugin_files(FileSystem& files, const SearchPath& place) {
  if (!files.is_folder(place.path))
    return files.exists(place.path) ? std::vector{place.path} : std::vector<std::string>();
  std::vector<std::string> found;
  for (const std::string& name : files.list(place.path))
    if (name.ends_with(".so")) found.push_back(join_path(place.path, name));
  return found;
}

}  // namespace plait::plugin
