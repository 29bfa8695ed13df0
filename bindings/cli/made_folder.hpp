// Folders that a command makes for its files.
#pragma once

#include <filesystem>
#include <string>

namespace plait::cli {

// Makes the folder and the ones above it; fine when it is there. part: the "[part]" of the message.
// how: how to name another folder, as "with --out". Throws CliError (kEnvironment) with what is in
// the way.
void make_folders(const std::filesystem::path& folder, const std::string& part,
                  const std::string& how);

}  // namespace plait::cli
