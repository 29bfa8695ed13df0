#include "plugins/formats/hf/prompt_adapter.hpp"

#include <algorithm>

#include "plugins/formats/hf/adapter_config.hpp"
#include "plugins/formats/hf/toml_text.hpp"

namespace plait::hf {
namespace {

using support::JsonPlace;

constexpr const char* kPromptKeys[] = {"num_virtual_tokens",
                                       "token_dim",
                                       "num_transformer_submodules",
                                       "num_attention_heads",
                                       "num_layers",
                                       "prompt_tuning_init",
                                       "prompt_tuning_init_text",
                                       "tokenizer_name_or_path",
                                       "tokenizer_kwargs"};
constexpr const char* kPrefixKeys[] = {
    "num_virtual_tokens",  "token_dim",   "num_transformer_submodules",
    "num_attention_heads", "num_layers",  "encoder_hidden_size",
    "prefix_projection",   "init_weights"};

// What the library trains the vectors by, and other parts of a model.
void check(const JsonPlace& config) {
  if (const JsonPlace task = config["task_type"]; task.text("CAUSAL_LM") != "CAUSAL_LM")
    task.bad("found '" + kit::printable(task.text()) + "', expected CAUSAL_LM",
             PLAIT_ERR_UNIMPLEMENTED);
  if (const JsonPlace n = config["num_transformer_submodules"]; !n.null() && n.whole(1, 64) != 1)
    n.bad("found " + n.value().dump() + ", expected 1: a decoder alone", PLAIT_ERR_UNIMPLEMENTED);
}

// The file has one tensor, (n_tokens, width). Returns n_tokens. words: what the width is.
int64_t read_vectors(const std::string& folder, const JsonPlace& config, int64_t width,
                     const char* words) {
  const int64_t n = config["num_virtual_tokens"].whole(1, INT32_MAX);
  const std::vector<kit::SafetensorsEntry> entries = adapter_tensors(folder);
  const std::string name = std::string("'") + kPromptTensor + "'";
  if (entries.size() != 1 || entries[0].name != kPromptTensor)
    bad_weights(
        folder,
        "it has " + std::to_string(entries.size()) + " tensors" +
            (entries.empty() ? "" : ", among them '" + kit::printable(entries[0].name) + "'") +
            ", expected one, " + name);
  if (entries[0].shape != std::vector<int64_t>{n, width})
    bad_weights(folder, "the tensor " + name + " is " + text_of(entries[0].shape) + ", expected " +
                            text_of({n, width}) + ", num_virtual_tokens and " + words +
                            "; give the folder of its own base with --option base=FOLDER");
  return n;
}

std::string entry(const char* type, const std::string& name,
                  const std::vector<std::string>& targets, int64_t n) {
  std::string match;
  for (const std::string& target : targets)
    match += (match.empty() ? "" : ", ") + toml_string("model." + target);
  return "\n# The first " + std::to_string(n) +
         " tokens of a sample and of a prompt are placeholders, of any id.\n[[model.adapters]]\n"
         "type = \"" +
         type + "\"\nname = " + toml_string(name) + "\nmatch = [" + match +
         "]\nn_tokens = " + std::to_string(n) + "\nload = \"weights.map.json\"\n";
}

int64_t kv_width(const Model& model) { return model.kv_heads * model.head_dim; }

void describe(nlohmann::ordered_json& config, const Model& model, int64_t n_tokens) {
  config["num_virtual_tokens"] = n_tokens;
  config["token_dim"] = model.width;
  config["num_transformer_submodules"] = 1;
  config["num_attention_heads"] = model.heads;
  config["num_layers"] = model.blocks.size();
}

void refuse(const std::string& folder, const std::string& why) {
  if (!why.empty()) fail(PLAIT_ERR_UNIMPLEMENTED, "[format.peft] folder '" + folder + "': " + why);
}

}  // namespace

std::string prompt_mismatch(const Model& model) {
  if (model.embedding_scale == 1) return "";
  return std::string("the family ") + model.family->type +
         " multiplies embeddings, and versions of the library differ in whether these vectors are "
         "among them";
}

std::string prefix_mismatch(const Model& model) {
  if (model.learned_positions && model.qk_norm == "none") return "";
  return std::string("the family ") + model.family->type +
         " turns or norms keys, and the library's prefix stands behind that, the method `prefix` "
         "in front of it; prefixes of gpt2 are read and written";
}

std::vector<std::string> prefix_targets(const Model& model) {
  std::vector<std::string> all;
  for (size_t i = 0; i < model.blocks.size(); ++i)
    for (const char* part : {"k", "v"})
      all.push_back("h" + std::to_string(i) + ".attn." + part + ".weight");
  return all;
}

std::string read_prompt(const std::string& folder, const JsonPlace& config, const Model& base,
                        const std::string& name, const FormatOutput& out) {
  check_config(folder, config, kPromptKeys, out);
  check(config);
  refuse(folder, prompt_mismatch(base));
  const int64_t n = read_vectors(folder, config, base.width, "the width of the base");
  const std::string own = name.empty() ? "soft_prompt" : name;
  out.weights(kAdapterWeights);
  out.place(std::string(kPromptTable) + "." + own + "." + kPromptVectors, kPromptTensor);
  return entry("soft_prompt", own, {kPromptTable}, n);
}

std::string read_prefix(const std::string& folder, const JsonPlace& config, const Model& base,
                        const std::string& name, const FormatOutput& out) {
  check_config(folder, config, kPrefixKeys, out);
  check(config);
  refuse(folder, prefix_mismatch(base));
  const std::vector<std::string> targets = prefix_targets(base);
  const int64_t width = kv_width(base);
  const int64_t n = read_vectors(folder, config, width * static_cast<int64_t>(targets.size()),
                                 "twice the layers of the base times the width of its keys");
  const std::string own = name.empty() ? "prefix" : name;
  out.weights(kAdapterWeights);
  for (size_t i = 0; i < targets.size(); ++i) {
    const std::string parameter = targets[i] + "." + own + "." + kPromptVectors;
    out.place({parameter.c_str(), kPromptTensor, static_cast<int64_t>(i) * width, width,
               PLAIT_PLACE_COLUMNS, 0});
  }
  return entry("prefix", own, {"h*.attn.k.weight", "h*.attn.v.weight"}, n);
}

void describe_prompt(nlohmann::ordered_json& config, const Model& model, int64_t n_tokens) {
  describe(config, model, n_tokens);
  config["prompt_tuning_init"] = "RANDOM";
}

void describe_prefix(nlohmann::ordered_json& config, const Model& model, int64_t n_tokens) {
  describe(config, model, n_tokens);
  config["token_dim"] = kv_width(model);
  config["num_attention_heads"] = model.kv_heads;
  config["encoder_hidden_size"] = model.width;
  config["prefix_projection"] = false;
}

}  // namespace plait::hf
