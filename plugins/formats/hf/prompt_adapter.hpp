// Virtual tokens in the files of the library PEFT: vectors in front of the embeddings of a text
// (prompt tuning), or in front of the keys and values of every layer (prefix tuning).
#pragma once

#include "plugins/formats/hf/model.hpp"
#include "plugins/formats/hf/peft_files.hpp"
#include "plugins/support/json_file.hpp"

namespace plait::hf {

// (n_tokens, width); of a prefix (n_tokens, layers * 2 * width): keys and values of each in turn.
inline constexpr char kPromptTensor[] = "prompt_embeddings";
inline constexpr char kPromptTable[] = "embed.weight";
inline constexpr char kPromptVectors[] = "vectors";

// The entry [[model.adapters]] of the adapter in `folder`; its places are told to `out`.
// Errors: as read_adapter().
std::string read_prompt(const std::string& folder, const support::JsonPlace& config,
                        const Model& base, const std::string& name, const FormatOutput& out);
std::string read_prefix(const std::string& folder, const support::JsonPlace& config,
                        const Model& base, const std::string& name, const FormatOutput& out);

// Adds to the configuration what describes n_tokens virtual tokens over the model.
void describe_prompt(nlohmann::ordered_json& config, const Model& model, int64_t n_tokens);
void describe_prefix(nlohmann::ordered_json& config, const Model& model, int64_t n_tokens);

// Why the library would compute another thing of this model; "" if it would not.
std::string prompt_mismatch(const Model& model);
std::string prefix_mismatch(const Model& model);

// The parameters that a prefix stands for, in the order of its columns: "h0.attn.k.weight".
std::vector<std::string> prefix_targets(const Model& model);

}  // namespace plait::hf
