// Experiments back into text.
#pragma once

#include <string>

#include "engine/config/experiment.hpp"

namespace plait::config {

// The complete experiment as TOML, every default written out, each key under a comment with its help, type, range and unit.
// Reading the text again gives the same experiment. absolute_paths: paths as they were resolved, for a copy kept elsewhere.
std::string bind(const Experiment& experiment, const Catalog& catalog, bool absolute_paths = false);

// Every value with its origin: {"run.seed": {"value": 42, "origin": "default"}, ...}.
std::string describe_json(const Experiment& experiment);

// The commented template of one item: "[[model.layers]]", its engine keys and its options with their defaults ("???" where a
// value is required). Errors: PLAIT_ERR_NOT_FOUND with the nearest name.
std::string item_template(const Catalog& catalog, const std::string& kind, const std::string& name);

}  // namespace plait::config
