// config.json of Hugging Face's library transformers, as its versions 4 and 5 write it.
#pragma once

#include "plugins/formats/hf/model.hpp"
#include "plugins/support/json_file.hpp"

namespace plait::hf {

// The model that a config.json describes.
// Errors: PLAIT_ERR_DATA for a value that is missing or wrong; PLAIT_ERR_UNIMPLEMENTED for what
// would be computed otherwise than in the library; both name file and key.
Model read_config(const support::JsonPlace& config);

}  // namespace plait::hf
