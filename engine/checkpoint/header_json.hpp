// The JSON part of a safetensors header.
#pragma once

#include <string>
#include <string_view>

#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {

// Fills metadata and tensors, in the text's order and with types and kinds of values checked; what the numbers mean together
// is not. Errors: PLAIT_ERR_DATA naming `where`.
void read_header_json(std::string_view text, SafetensorsHeader& out, const std::string& where);

}  // namespace plait::checkpoint
