#include "plugins/formats/hf/prompt_adapter.hpp"

#include <algorithm>
#include <filesystem>

#include "plugins/formats/hf/toml_text.hpp"
#include "plugins/support/tensor_file.hpp"

namespace plait::hf {
namespace {

using support::JsonPlace;

[[noreturn]] void bad(const std::string& folder, const std::string& what) {
  fail(PLAIT_ERR_DATA, "[format.peft] folder '" + folder + "': " + kAdapterWeights + ": " + what);
}

// What the library trains the vectors by, and other parts of a model.
void check(const JsonPlace& config) {
  if (const JsonPlace task = config["task_type"]; task.text("CAUSAL_LM") != "CAUSAL_LM")
    task.bad("found '" + kit::printable(task.text()) + "', expected CAUSAL_LM",
             PLAIT_ERR_UNIMPLEMENTED);
  if (const JsonPlace n = config["num_transformer_submodules"]; !n.null() && n.whole(1, 64) != 1)
    n.bad("found " + n.value().dump() + ", expected 1: a decoder alone", PLAIT_ERR_UNIMPLEMENTED);
  if (const JsonPlace saved = config["modules_to_save"]; !saved.null() && !saved.value().empty())
    saved.bad("this is not computed by any adapter here; expected none", PLAIT_ERR_UNIMPLEMENTED);
}

}  // namespace

std::string prompt_mismatch(const Model& model) {
  if (model.embedding_scale == 1) return "";
  return std::string("the family ") + model.family->type +
         " multiplies embeddings, and versions of the library differ in whether these vectors are "
         "among them";
}

std::string read_prompt(const std::string& folder, const JsonPlace& config, const Model& base,
                        const std::string& name, const FormatOutput& out) {
  check(config);
  if (const std::string why = prompt_mismatch(base); !why.empty())
    fail(PLAIT_ERR_UNIMPLEMENTED, "[format.peft] folder '" + folder + "': " + why);
  const int64_t n = config["num_virtual_tokens"].whole(1, INT32_MAX);
  const support::TensorFile file(
      {"format.peft", "folder", (std::filesystem::path(folder) / kAdapterWeights).string()});
  const auto& entries = file.entries();
  const auto vectors =
      std::find_if(entries.begin(), entries.end(),
                   [](const kit::SafetensorsEntry& e) { return e.name == kPromptTensor; });
  if (vectors == entries.end() || entries.size() != 1)
    bad(folder, std::string("expected one tensor, '") + kPromptTensor + "'");
  if (vectors->shape != std::vector<int64_t>{n, base.width})
    bad(folder, std::string("the tensor '") + kPromptTensor + "' is not (" + std::to_string(n) +
                    ", " + std::to_string(base.width) +
                    "), num_virtual_tokens and the width of the base; give the folder of its own "
                    "base with --option base=FOLDER");
  const std::string own = name.empty() ? "soft_prompt" : name;
  out.weights(kAdapterWeights);
  out.place(std::string(kPromptTable) + "." + own + "." + kPromptVectors, kPromptTensor);
  return "\n# The first " + std::to_string(n) +
         " tokens of a sample and of a prompt are placeholders, of any id.\n[[model.adapters]]\n"
         "type = \"soft_prompt\"\nname = " +
         toml_string(own) + "\nmatch = [\"model." + kPromptTable +
         "\"]\nn_tokens = " + std::to_string(n) + "\nload = \"weights.map.json\"\n";
}

void describe_prompt(nlohmann::ordered_json& config, const Model& model, int64_t n_tokens) {
  config["num_virtual_tokens"] = n_tokens;
  config["token_dim"] = model.width;
  config["num_transformer_submodules"] = 1;
  config["num_attention_heads"] = model.heads;
  config["num_layers"] = model.blocks.size();
  config["prompt_tuning_init"] = "RANDOM";
}

}  // namespace plait::hf
