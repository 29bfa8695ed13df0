#include "plugins/formats/hf/chat_template.hpp"

#include <plait/plugin.hpp>

#include "plugins/support/description_file.hpp"
#include "plugins/support/json_file.hpp"

namespace plait::hf {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Both begin a turn with <|user|>: zephyr ends every turn with the end token, tulu those of the
// assistant alone.
std::string_view zephyr_or_tulu(std::string_view jinja) {
  const size_t user = jinja.find("<|user|>");
  const std::string_view turn =
      user == std::string_view::npos ? jinja : jinja.substr(user, jinja.find("}}", user) - user);
  return has(turn, "eos_token") ? "zephyr" : "tulu";
}

std::string text_of(const std::filesystem::path& path) {
  const support::SourceFile file{"format.hf", "folder", path.string()};
  const support::Bytes bytes = support::read_description(file);
  const auto span = bytes.span();
  return std::string(span.begin(), span.end());
}

std::string in_tokenizer_config(const std::filesystem::path& path) {
  const support::SourceFile file{"format.hf", "folder", path.string()};
  const support::Bytes bytes = support::read_description(file);
  const nlohmann::json json = support::parse_json(file, bytes.span());
  const support::JsonPlace found = support::JsonPlace(file, json, "")["chat_template"];
  if (!found.value().is_array()) return found.text("");
  for (size_t i = 0; i < found.size(); ++i)
    if (found[i]["name"].text("") == "default") return found[i]["template"].text("");
  return "";
}

}  // namespace

std::string_view known_template(std::string_view jinja) {
  // Phi-4 has no line break behind the role.
  if (has(jinja, "<|im_start|>")) return has(jinja, "<|im_sep|>") ? "" : "chatml";
  if (has(jinja, "<|start_header_id|>")) return "llama3";
  if (has(jinja, "<start_of_turn>")) return "gemma";
  // Later templates of Mistral put their spaces elsewhere.
  if (has(jinja, "[SYSTEM_PROMPT]") || has(jinja, "[AVAILABLE_TOOLS]")) return "";
  if (has(jinja, "[INST]")) return has(jinja, "<<SYS>>") ? "llama2" : "mistral";
  if (!has(jinja, "<|assistant|>")) return "";
  if (!has(jinja, "<|end|>")) return zephyr_or_tulu(jinja);
  return has(jinja, "|>\\n") || has(jinja, "|>\n") ? "phi3" : "";
}

std::string_view template_of(const std::filesystem::path& folder) {
  std::error_code ignored;
  const auto jinja = folder / "chat_template.jinja", config = folder / "tokenizer_config.json";
  if (std::filesystem::is_regular_file(jinja, ignored)) return known_template(text_of(jinja));
  if (std::filesystem::is_regular_file(config, ignored))
    return known_template(in_tokenizer_config(config));
  return "";
}

}  // namespace plait::hf
