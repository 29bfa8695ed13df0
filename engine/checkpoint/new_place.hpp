// Files and folders that appear at a new place complete, or not at all.
#pragma once

#include <functional>
#include <string>

#include "engine/base/files.hpp"

namespace plait::checkpoint {

// Calls write(hidden), which makes a file or folder whose content is durable, and gives it the name
// `out`. Nothing is left of it after an error.
// Errors: PLAIT_ERR_INVALID if `out` exists; else the error that ended it, with the text "[part]
// what".
void write_new(FileSystem& files, const std::string& out, const char* part, const std::string& what,
               const std::function<void(const std::string& hidden)>& write);

}  // namespace plait::checkpoint
