// The JSON part of a safetensors header.
#pragma once

#include <string>
#include <string_view>

#include "engine/checkpoint/safetensors.hpp"

namespace plait::checkpoint {

// Fills metadata and tensors in the order of the text and checks types of values; whether the
// numbers are consistent is checked elsewhere. Errors: PLAIT_ERR_DATA naming `where`.
void read_header_json(std::string_view text, SafetensorsHeader& out, const std::string& where);

}  // namespace plait::checkpoint
