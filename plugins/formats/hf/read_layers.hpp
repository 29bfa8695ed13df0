// A model of the engine, told by its layers, as a model of a family.
#pragma once

#include <nlohmann/json.hpp>

#include "plugins/formats/hf/model.hpp"

namespace plait::hf {

// model: the JSON of plait_format_item.write(). The family is the one named `family`, or, if that
// is
// empty, the first that can describe the model.
// Errors: PLAIT_ERR_UNIMPLEMENTED with the layer and option that no family has.
Model read_layers(const nlohmann::json& model, const std::string& family);

}  // namespace plait::hf
