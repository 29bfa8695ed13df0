// The search paths for plugins, always in this order:
//   1. paths given through the API
//   2. [plugins].paths of the experiment
//   3. PLAIT_PLUGIN_PATH (not when privileged)
//   4. ~/.local/lib/plait/plugins-1
//   5. <folder of the engine's library>/plait/plugins-1
// The first plugin of a name wins; later ones are reported as shadowed. Each path is a plugin file
// or a folder with plugins (*.so).
#pragma once

#include <string>
#include <vector>

namespace plait {
class FileSystem;
}

namespace plait::plugin {

struct SearchPath {
  std::string path;    // absolute; a relative one is rejected
  std::string source;  // "given", "experiment", "PLAIT_PLUGIN_PATH", "user", "engine"
  bool must =
      false;  // named explicitly: its absence or failure is an error, not a line in the report
};

// Paths 3 to 5: the default search. Absent folders are skipped silently.
std::vector<SearchPath> default_search_paths();
// Search paths for explicit relative or absolute paths; relative ones start at `folder`.
std::vector<SearchPath> named_search_paths(const std::vector<std::string>& paths,
                                           const std::string& source, const std::string& folder);
// The plugin files of a search path, sorted: the file itself, or the *.so files in the folder.
std::vector<std::string> plugin_files(FileSystem& files, const SearchPath& location);
// The folder of the file that contains this function: libplait.so, or the program that it is linked
// into.
std::string engine_folder();

}  // namespace plait::plugin
