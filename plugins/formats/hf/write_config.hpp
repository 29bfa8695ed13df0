// config.json for a model of the engine.
#pragma once

#include <nlohmann/json.hpp>

#include "plugins/formats/hf/model.hpp"

namespace plait::hf {

// like: the config.json that the model began with, whose keys stay unless the model says
// otherwise; an empty object for none. dtype: "f32", "bf16", ... of the weights. Keys are those of
// version 4 of the library, and the object rope_parameters of version 5.
nlohmann::ordered_json config_json(const Model& model, const nlohmann::ordered_json& like,
                                   const std::string& dtype);

}  // namespace plait::hf
