// Files that a command writes for its user.
#pragma once

#include <string>

namespace plait::cli {

// Replaces the file at `path` by `text`: whoever reads it sees the old text or the new one, and a
// write that fails leaves the old one. A link stays, and what is behind it is replaced; a pipe or a
// device is written to. Errors: CliError (kEnvironment) with the path and the reason.
void write_whole_file(const std::string& path, const std::string& text);

}  // namespace plait::cli
