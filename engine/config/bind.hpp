// Writes experiments as text.
#pragma once

#include <string>

#include "engine/base/json.hpp"
#include "engine/config/experiment.hpp"

namespace plait::config {

// The path under which bind() writes a table of a model: "optimizer" of the only one, as examples
// do, "models.NAME.optimizer" of one among several. Losses: "loss", "losses[1]".
std::string table_path(const ModelConfig& model, const std::string& table);
std::string loss_path(const ModelConfig& model, size_t i);

// The value of an option in JSON.
void write_value(JsonWriter& json, const OptionValue& value);

// The complete experiment as TOML with every default written out and each key below a comment with
// its help, type, range and unit. Reading the text gives the same experiment. absolute_paths: write
// paths from the root where they were found, for a copy stored elsewhere.
std::string bind(const Experiment& experiment, const Catalog& catalog, bool absolute_paths = false);

// A path as it is called from any folder; unchanged if it begins at the root.
std::string rooted_path(const std::string& path);

// Every value with its origin: {"run.seed": {"value": 42, "origin": "default"}, ...}. "key" is its
// path in the file, where that is not the one that bind() writes: "loss.type".
std::string describe_json(const Experiment& experiment);

}  // namespace plait::config
