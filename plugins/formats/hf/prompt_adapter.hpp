// Prompt tuning in the files of the library PEFT: vectors in front of the embeddings of a text.
#pragma once

#include "plugins/formats/hf/model.hpp"
#include "plugins/formats/hf/peft_files.hpp"
#include "plugins/support/json_file.hpp"

namespace plait::hf {

inline constexpr char kPromptTensor[] = "prompt_embeddings";  // (n_tokens, width)
inline constexpr char kPromptTable[] = "embed.weight";
inline constexpr char kPromptVectors[] = "vectors";

// The entry [[model.adapters]] of the adapter in `folder`; its place is told to `out`.
// Errors: as read_adapter().
std::string read_prompt(const std::string& folder, const support::JsonPlace& config,
                        const Model& base, const std::string& name, const FormatOutput& out);

// Adds to the configuration what describes n_tokens vectors over the model.
void describe_prompt(nlohmann::ordered_json& config, const Model& model, int64_t n_tokens);

// Why the library would compute another thing of this model; "" if it would not.
std::string prompt_mismatch(const Model& model);

}  // namespace plait::hf
