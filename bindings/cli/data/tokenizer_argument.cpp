#include "bindings/cli/data/tokenizer_argument.hpp"

#include <filesystem>

#include "bindings/cli/context.hpp"
#include "bindings/cli/item_toml.hpp"

namespace plait::cli {
namespace fs = std::filesystem;

namespace {

// The tokenizer's file in the folder of a model; "": there is none.
std::string file_of_model(const fs::path& folder) {
  std::error_code ignored;
  for (const char* name : {"tokenizer.json", "vocab.json", "tokenizer.model"})
    if (fs::exists(folder / name, ignored)) return name;
  return "";
}

}  // namespace

std::string tokenizer_toml(const std::string& given, const std::vector<std::string>& options) {
  std::error_code ignored;
  const std::string file = file_of_model(given);
  if (given.find_first_of("/.") == std::string::npos && file.empty())
    return item_toml(given, options);
  fs::path path = fs::path(given).lexically_normal();
  if (file == "tokenizer.model") path /= file;  // the tokenizer hf finds its files by itself
  const std::string extension = path.extension();
  const char* type = extension == ".json" || fs::is_directory(path, ignored) ? "hf"
                     : extension == ".model"                                 ? "sentencepiece"
                     : extension == ".tiktoken"                              ? "tiktoken"
                                                                             : nullptr;
  if (!type)
    throw CliError(kUsage, "[data] --tokenizer '" + given +
                               "': expected a type, as `plait plugins tokenizer` lists them, "
                               "tokenizer.json, or the folder with it");
  std::vector<std::string> all = options;
  all.push_back("path=" + toml_value(fs::absolute(path).string()));
  return item_toml(type, all);
}

Tokenizer open_tokenizer(const Engine& engine, const std::string& toml) {
  try {
    return Tokenizer(engine, toml, "--tokenizer");
  } catch (const HostError& e) {
    throw HostError(e.code(),
                    with_options_named(e.what(), "--tokenizer", toml) +
                        "\nthe tokenizer of a model is named by its folder or file; plait plugins "
                        "tokenizer lists types and options; --option KEY=VALUE gives an option");
  }
}

}  // namespace plait::cli
