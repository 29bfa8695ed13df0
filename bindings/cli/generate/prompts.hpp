// What plait generate is asked for: its arguments, and the prompts among them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"

namespace plait::cli {

struct GenerateArguments {
  FileArguments file;
  std::string checkpoint, adapter, prompt_file, tokenizer, chat_template, system, conversation;
  bool chat = false;
  std::vector<std::string> prompts, ids, stop, options;
  std::optional<int64_t> placeholders;  // none: as many as the adapters want
  std::string max_tokens, temperature, top_k, top_p, min_p, seed, slots, length;  // "": not given
};

struct TextPrompt {
  std::string text, adapter;  // "": as --adapter says
};

struct Prompts {
  std::vector<TextPrompt> texts;
  std::vector<std::vector<int32_t>> ids;  // of --ids, behind the texts
  size_t size() const { return texts.size() + ids.size(); }
};

// Errors: CliError(kUsage) for a file that cannot be read, or what is no prompt.
Prompts read_prompts(const GenerateArguments& arguments);

}  // namespace plait::cli
