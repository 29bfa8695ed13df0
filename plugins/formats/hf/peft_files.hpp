// The files of the library PEFT: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <plait/plugin.hpp>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "plugins/formats/hf/write_toml.hpp"

namespace plait::hf {

inline constexpr char kAdapterConfig[] = "adapter_config.json";
inline constexpr char kAdapterWeights[] = "adapter_model.safetensors";
// In front of the paths of modules in names of tensors.
inline constexpr char kAdapterPrefix[] = "base_model.model.";

// The tokenizer in a folder: its type and file; "" if there is none.
using FindTokenizer = std::function<Speech(const std::string& folder)>;

// The experiment of the adapter in `folder`, for the base in `base`, a folder that the format hf
// was read to. name: of the adapter in the experiment; "": its type.
// Errors: PLAIT_ERR_DATA and PLAIT_ERR_UNIMPLEMENTED with file and key, or tensor.
void read_adapter(const std::string& folder, const std::string& base, const std::string& name,
                  const FindTokenizer& tokenizer_in, const FormatOutput& out);

// The files of adapters of one sort. model: the JSON of plait_format_item.write(). adapter: the one
// that is written; "": all of them. base: the base's name in the configuration; "": null.
// Errors: PLAIT_ERR_UNIMPLEMENTED with what the library has no word for.
void write_adapter(const nlohmann::json& model, const std::string& family,
                   const std::string& adapter, const std::string& base, const FormatOutput& out);

}  // namespace plait::hf
