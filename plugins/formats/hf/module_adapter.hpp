// Adapters of single modules in the files of the library PEFT: LoRA, DoRA, AdaLoRA, IA3 and VeRA.
#pragma once

#include "plugins/formats/hf/model.hpp"
#include "plugins/formats/hf/peft_files.hpp"
#include "plugins/support/json_file.hpp"

namespace plait::hf {

// The entries [[model.adapters]] of the adapter in `folder`; its places are told to `out`.
// base_name: of the base in messages. train: gets the parameters of the base that learned as well.
// Errors: as read_adapter().
std::string read_modules(const std::string& folder, const support::JsonPlace& config,
                         const Model& base, const std::string& base_name, const std::string& name,
                         const FormatOutput& out, std::vector<std::string>& train);

}  // namespace plait::hf
