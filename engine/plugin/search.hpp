// Where plugins are looked for. The one order there is:
//   1. paths given through the API      2. [plugins].paths of the experiment    3. PLAIT_PLUGIN_PATH (not when privileged)
//   4. ~/.local/lib/plait/plugins-1     5. <folder of the engine's library>/plait/plugins-1
// The first plugin of a name wins; later ones are reported as shadowed. Each path is a plugin file or a folder of them (*.so).
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
      false;  // named by somebody: its absence or failure is an error, not a line in the report
};

// Places 3 to 5: what an engine searches when nobody says otherwise. Absent folders are left out of the search silently.
std::vector<SearchPath> default_search_paths();
// Places of relative or absolute paths somebody named, from `folder`.
std::vector<SearchPath> named_search_paths(const std::vector<std::string>& paths,
                                           const std::string& source, const std::string& folder);
// The plugin files of a place, sorted: itself, or the *.so in it.
std::vector<std::string> plugin_files(FileSystem& files, const SearchPath& place);
// Folder of the file that holds this function: of libplait.so, or of the program it is linked into.
std::string engine_folder();

}  // namespace plait::plugin
