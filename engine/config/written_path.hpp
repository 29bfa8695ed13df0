// Relative paths of values whose file may be one that the experiment extends.
#pragma once

#include <string>
#include <vector>

#include "engine/config/paths.hpp"
#include "engine/config/problem.hpp"

namespace plait::config {

// The folders that a relative path given at `at` is looked up in, in the order of the search: the
// data folder, that of the file that gives it, that of the experiment, which may extend the file.
std::vector<std::string> folders_of(const PathResolver& resolver, const Origin& at);

// Whether it is "." or ".." (or "../..") in an override. Each folder of a search has these, so it
// would end at the first one; who writes an override means the current folder.
bool is_of_current_folder(const std::string& path, const Origin& at);

// The first of these that has it, else as resolver.resolve(). Of the current folder: unchanged.
std::string resolve_written(const PathResolver& resolver, const std::string& path,
                            const Origin& at);

// Whether `resolved` lies beside a file that gives it and is extended.
bool is_beside_extended(const PathResolver& resolver, const std::string& path,
                        const std::string& resolved, const Origin& at);

}  // namespace plait::config
