// An item given on the command line, a tokenizer or a format, as the TOML that the library reads.
#pragma once

#include <string>
#include <vector>

namespace plait::cli {

// type = "TYPE", and of each KEY=VALUE a line; a value that is no JSON is a text.
// Errors: CliError for an option without "=".
std::string item_toml(const std::string& type, const std::vector<std::string>& options);

}  // namespace plait::cli
