// Checks of a plugin file before any of its code runs, and of its table before it is opened. All
// throw PluginLoadError.
#pragma once

#include <plait/plugin.h>

#include <string>
#include <vector>

#include "engine/plugin/inspect.hpp"

namespace plait {
class FileSystem;
}

namespace plait::plugin {

// A regular file owned by this user or root that nobody else may write, in a folder with the same
// property, below folders that not everybody may write. path: a real path, without links.
void check_permissions(FileSystem& files, const std::string& path);
// Machine, file type, note, ABI, sanitizer.
void check_inspection(const Inspection& found);
// The table returned by the entry function (may be NULL).
void check_table(const plait_plugin* table, const Inspection& found);
// Exported symbols besides the entry.
std::vector<std::string> surplus_exports(const Inspection& found);

}  // namespace plait::plugin
