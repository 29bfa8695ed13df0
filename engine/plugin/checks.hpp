// Checks of a plugin before any of its code runs, and of its table before it is opened. All throw
// PluginLoadError. plugin_file.hpp checks who may write the file.
#pragma once

#include <plait/plugin.h>

#include <string>
#include <vector>

#include "engine/plugin/inspect.hpp"

namespace plait::plugin {

// Machine, file type, note, ABI, sanitizer.
void check_inspection(const Inspection& found);
// The table returned by the entry function (may be NULL).
void check_table(const plait_plugin* table, const Inspection& found);
// Exported symbols besides the entry.
std::vector<std::string> surplus_exports(const Inspection& found);

}  // namespace plait::plugin
