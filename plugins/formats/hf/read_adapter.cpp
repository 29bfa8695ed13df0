#include <filesystem>

#include "kit/json_cursor.hpp"
#include "plugins/formats/hf/module_adapter.hpp"
#include "plugins/formats/hf/peft_files.hpp"
#include "plugins/formats/hf/prompt_adapter.hpp"
#include "plugins/formats/hf/read_config.hpp"
#include "plugins/formats/hf/toml_text.hpp"
#include "plugins/support/description_file.hpp"
#include "plugins/support/json_file.hpp"

namespace plait::hf {
namespace {

namespace fs = std::filesystem;
using support::JsonPlace;
using support::SourceFile;

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::string head_of(const std::string& folder, const std::string& base_experiment) {
  return "# Adapter of the library PEFT from " + one_line(folder) +
         ",\n# and the model that it changes.\nextends = [" + toml_string(base_experiment) +
         "]\n\n[run]\nname = " + toml_string(name_of_folder(folder)) + "\n";
}

// The entries [[model.adapters]]. train: gets the parameters of the base that learned beside them.
std::string entries_of(const std::string& folder, const JsonPlace& config, const Model& base,
                       const std::string& base_name, const std::string& name,
                       const FormatOutput& out, std::vector<std::string>& train) {
  const std::string type = config["peft_type"].text();
  if (type == "PROMPT_TUNING") return read_prompt(folder, config, base, name, out);
  if (type == "PREFIX_TUNING") return read_prefix(folder, config, base, name, out);
  if (type == "LORA" || type == "ADALORA" || type == "IA3" || type == "VERA")
    return read_modules(folder, config, base, base_name, name, out, train);
  config["peft_type"].bad("unknown type '" + kit::printable(type) + "'" +
                          "; known are ADALORA, IA3, LORA (DoRA too), PREFIX_TUNING, "
                          "PROMPT_TUNING, VERA; another adapter can be merged in the library "
                          "(merge_and_unload) and the "
                          "model that it saves imported");
}

// The files of the base: a data folder may have others of these names.
std::string paths_of(const fs::path& base, const Speech& speech,
                     const std::vector<std::string>& train) {
  const auto set = [&](const std::string& table, const char* key, const std::string& name) {
    return is_file(base / name) ? table + key + " = " + toml_string((base / name).string()) + "\n"
                                : "";
  };
  // The type too: the import tries the tokenizer of this text alone.
  return (speech.file.empty() ? ""
                              : set("\n[tokenizer]\ntype = " + toml_string(speech.tokenizer) + "\n",
                                    "path", speech.file)) +
         "\n[model]\n" + set("", "load", "weights.map.json") +
         (train.empty() ? "" : "train = " + toml_strings(train) + "\n");
}

// The folder that the base was imported to.
fs::path imported(const std::string& base, const JsonPlace& config) {
  if (base.empty()) {
    const std::string known = config["base_model_name_or_path"].text("");
    fail(PLAIT_ERR_CONFIG,
         "[format.peft] option 'base' is missing: the folder that `plait import hf` made of the "
         "base" +
             (known.empty() ? "" : ", '" + kit::printable(known) + "'") +
             "; add --option base=FOLDER");
  }
  std::error_code ignored;
  const fs::path folder =
      fs::is_directory(base, ignored) ? fs::path(base) : fs::path(base).parent_path();
  if (!fs::is_directory(base, ignored) && !is_file(base))
    fail(PLAIT_ERR_NOT_FOUND, "[format.peft] base '" + base +
                                  "' does not exist; name the folder that `plait import hf` made "
                                  "of the base, or the experiment in it");
  if (!is_file(folder / "config.json") || !is_file(folder / "experiment.toml"))
    fail(PLAIT_ERR_NOT_FOUND,
         "[format.peft] base '" + base + "': it has no " +
             (is_file(folder / "config.json") ? "experiment.toml" : "config.json") +
             "; make a folder of the base first: plait import hf MODEL FOLDER");
  return folder;
}

}  // namespace

void read_adapter(const std::string& folder, const std::string& base, const std::string& name,
                  const FindTokenizer& tokenizer_in, const FormatOutput& out) {
  const SourceFile file{"format.peft", "folder", (fs::path(folder) / kAdapterConfig).string()};
  support::in_memory(file, [&] {
    const support::Bytes bytes = support::read_description(file);
    const nlohmann::json json = support::parse_json(file, bytes.span());
    const JsonPlace config(file, json, "");
    const fs::path from = imported(base, config);
    const SourceFile base_file{"format.peft", "base", (from / "config.json").string()};
    const support::Bytes base_bytes = support::read_description(base_file);
    const nlohmann::json base_json = support::parse_json(base_file, base_bytes.span());
    const Model model = read_config(JsonPlace(base_file, base_json, ""));
    std::vector<std::string> train;
    const std::string entries = entries_of(folder, config, model, from.string(), name, out, train);
    std::error_code ignored;
    const fs::path at = fs::canonical(from);
    const bool whole = fs::is_directory(base, ignored);
    const std::string experiment = (whole ? at / "experiment.toml" : fs::canonical(base)).string();
    out.file("experiment.toml", head_of(folder, experiment) +
                                    paths_of(at, tokenizer_in(at.string()), train) + entries);
  });
}

}  // namespace plait::hf
