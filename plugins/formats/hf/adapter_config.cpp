#include "plugins/formats/hf/adapter_config.hpp"

#include <algorithm>
#include <filesystem>

#include "plugins/support/tensor_file.hpp"

namespace plait::hf {
namespace {

namespace fs = std::filesystem;
using support::JsonPlace;

// Of every type.
constexpr const char* kCommon[] = {"peft_type",        "task_type",      "base_model_name_or_path",
                                   "base_model_class", "parent_library", "revision",
                                   "inference_mode",   "auto_mapping",   "peft_version"};
// Keys of which the library computes something else, unless they are absent, false or empty.
constexpr const char* kComputed[] = {
    "modules_to_save", "trainable_token_indices", "target_parameters", "use_qalora",
    "use_bdlora",      "alora_invocation_tokens", "layer_replication", "arrow_config",
    "lora_bias",       "velora_config",           "monteclora_config", "kasa_config"};

bool holds(std::span<const char* const> keys, const std::string& key) {
  return std::any_of(keys.begin(), keys.end(), [&](const char* one) { return key == one; });
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

void check_computed(const JsonPlace& config, std::span<const char* const> own) {
  for (const char* key : kComputed) {
    if (holds(own, key)) continue;
    const nlohmann::json& value = config[key].value();
    const bool off = value.is_null() || value == false ||
                     ((value.is_array() || value.is_object()) && value.empty());
    if (off) continue;
    const bool trains = std::string_view(key) == "modules_to_save";
    config[key].bad(
        trains
            ? "modules of the base were trained as well, which is read beside adapters of single "
              "modules alone, expected none; train them beside LoRA, or without them"
            : "this is not computed by any adapter here; expected none or false",
        PLAIT_ERR_UNIMPLEMENTED);
  }
  if (const JsonPlace bias = config["bias"]; !holds(own, "bias") && bias.text("none") != "none")
    bias.bad("found '" + kit::printable(bias.text()) +
                 "': biases of the base were trained as well, which this type does not have, "
                 "expected none",
             PLAIT_ERR_UNIMPLEMENTED);
}

}  // namespace

void check_config(const std::string& folder, const JsonPlace& config,
                  std::span<const char* const> own, const FormatOutput& out) {
  check_computed(config, own);
  std::string unknown;
  for (const auto& [key, value] : config.object().items())
    if (!holds(kCommon, key) && !holds(kComputed, key) && !holds(own, key) && key != "bias")
      unknown += (unknown.empty() ? "'" : ", '") + kit::printable(key) + "'";
  if (!unknown.empty())
    out.warn("[format.peft] " + std::string(kAdapterConfig) + " of '" + folder +
             "' has keys that are not known and have no effect here: " + unknown);
}

std::vector<kit::SafetensorsEntry> adapter_tensors(const std::string& folder) {
  const fs::path path = fs::path(folder) / kAdapterWeights;
  if (!is_file(path))
    fail(PLAIT_ERR_NOT_FOUND,
         "[format.peft] folder '" + folder + "': it has no " + kAdapterWeights +
             (is_file(fs::path(folder) / "adapter_model.bin")
                  ? "; its weights are pickled: load it with the library and save it again, "
                    "which writes safetensors"
                  : "; expected the folder that save_pretrained() of the library wrote"));
  return support::TensorFile({"format.peft", "folder", path.string()}).entries();
}

std::string text_of(const std::vector<int64_t>& shape) {
  std::string text;
  for (const int64_t extent : shape) text += (text.empty() ? "" : ", ") + std::to_string(extent);
  return "(" + text + ")";
}

void bad_weights(const std::string& folder, const std::string& what, uint32_t code) {
  fail(code, "[format.peft] folder '" + folder + "': " + kAdapterWeights + ": " + what);
}

}  // namespace plait::hf
