// What a plugin file must satisfy before any of its code runs, and its table before it is opened. All throw PluginLoadError.
#pragma once

#include <plait/plugin.h>

#include <string>
#include <vector>

#include "engine/plugin/inspect.hpp"

namespace plait {
class FileSystem;
}

namespace plait::plugin {

// A regular file of ours or root's that nobody else may write, in a folder of the same kind.
void check_permissions(FileSystem& files, const std::string& path);
// Machine, kind of file, note, ABI, sanitizer.
void check_inspection(const Inspection& found);
// The table that the entry function returned (NULL too).
void check_table(const plait_plugin* table, const Inspection& found);
// Exported symbols besides the entry.
std::vector<std::string> surplus_exports(const Inspection& found);

}  // namespace plait::plugin
