// The keys of an experiment as `plait bind` writes it, and run.toml has it: a value a line.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace plait::cli {

// Every value by its path, "optimizer.learning_rate" or "model.layers[0].out", as it is written; in
// the order of the file. Any file can be read: lines without a value or a table are skipped.
// Errors: CliError for a file that cannot be opened.
std::vector<std::pair<std::string, std::string>> flat_toml(const std::string& path);

// A key in which experiments differ, and its value in each; "" where one has no such key.
struct ChangedKey {
  std::string key;
  std::vector<std::string> values;
};
// Of the run.toml of run directories, sorted by key. Errors: as of flat_toml().
std::vector<ChangedKey> changed_keys(const std::vector<std::string>& runs);

}  // namespace plait::cli
