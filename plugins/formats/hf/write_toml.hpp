// The experiment of a model that was read from a folder.
#pragma once

#include <string>

#include "plugins/formats/hf/model.hpp"

namespace plait::hf {

// The text of experiment.toml: the model, with the key of config.json behind each value, and what
// is left for the reader to fill in. folder: where the model was.
std::string experiment_toml(const Model& model, const std::string& folder);

}  // namespace plait::hf
