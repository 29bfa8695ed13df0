// What the readers of all types of adapters share: the keys of adapter_config.json that a type has,
// and the tensors of adapter_model.safetensors.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kit/safetensors.hpp"
#include "plugins/formats/hf/peft_files.hpp"
#include "plugins/support/json_file.hpp"

namespace plait::hf {

// Warns of keys that neither all types have nor this one. `own`: those that it has besides; it
// reads them itself.
// Errors: PLAIT_ERR_UNIMPLEMENTED for a key of what the library computes and no adapter here does.
void check_config(const std::string& folder, const support::JsonPlace& config,
                  std::span<const char* const> own, const FormatOutput& out);

// Errors: PLAIT_ERR_NOT_FOUND without the file, PLAIT_ERR_DATA.
std::vector<kit::SafetensorsEntry> adapter_tensors(const std::string& folder);

// "(3, 4)".
std::string text_of(const std::vector<int64_t>& shape);

// Throws: "[format.peft] folder '...': adapter_model.safetensors: <what>".
[[noreturn]] void bad_weights(const std::string& folder, const std::string& what,
                              uint32_t code = PLAIT_ERR_DATA);

}  // namespace plait::hf
