#include "bindings/cli/help/reference.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

namespace plait::cli {
namespace {

// For a cell of a table in Markdown.
std::string cell(const std::string& text) {
  std::string all;
  for (const char c : text)
    if (c == '|')
      all += "\\|";
    else if (c == '<')
      all += "&lt;";  // or it begins a tag
    else
      all += c;
  return all;
}

std::string default_cell(const Json& key) {
  const Json& value = key.contains("default") ? key["default"] : Json();
  return value.is_null() ? "*required*" : "`" + value.get<std::string>() + "`";
}

std::string rows_of(const Json& keys) {
  if (keys.empty()) return "";
  std::string text = "| key | default | may be | meaning |\n|---|---|---|---|\n";
  for (const Json& key : keys)
    text += "| `" + key.value("name", "") + "` | " + cell(default_cell(key)) + " | " +
            cell(key.value("expected", "")) + " | " + cell(key.value("help", "")) + " |\n";
  return text + "\n";
}

std::string table_section(const Json& table) {
  std::string text = "### `" + header_of(table) + "`\n\n" + table.value("help", "") + ".";
  if (!table.at("also").empty()) {
    text += " Also: ";
    for (size_t i = 0; i < table.at("also").size(); ++i)
      text += (i ? ", `" : "`") + table.at("also")[i].get<std::string>() + "`";
    text += ".";
  }
  if (table.contains("kind") && !table.contains("named_by"))
    text += " The options of the " + kind_word(table.at("kind")) +
            " that `type` names go in the same table.";
  return text + "\n\n" + rows_of(table.at("keys"));
}

std::string item_section(const Json& item) {
  std::string text = "### " + kind_word(item.at("kind")) + " `" + item.value("name", "") + "`\n\n" +
                     item.value("help", "") + ". Of the plugin `" + item.value("plugin", "") + "`.";
  if (item.contains("learning_rate"))
    text += " By default `learning_rate = " + item["learning_rate"].dump() +
            "` and `weight_decay = " + item["weight_decay"].dump() + "`.";
  return text + "\n\n" + rows_of(item.at("options"));
}

constexpr const char* kHead =
    R"(# Keys and items of an experiment

Made by `plait keys --markdown` from what the engine and its plugins declare; not written by )"
    R"(hand. `plait keys WORD` shows a
table, a key or an item, `plait bind FILE` an experiment with every key, and )"
    R"(`plait check FILE` what is wrong with it.

`[table]` is written once, `[[table]]` once for each element of a list. )"
    R"(NAME and FIELD are names of your own. Behind an
experiment, `table.key=value` and `list[0].key=value` override values.

)";

constexpr char kExtends[] =
    R"(`extends = ["base.toml"]`, above all tables, begins with the values of other experiments, )"
    R"(named relative to the file: tables are
merged, lists and items of another `type` replaced, and the file's own values count most. )"
    R"(A relative path is looked up beside
the file that gives it, then beside the experiment. )"
    R"(`.` and `..` of an override are of the current folder.
)";

}  // namespace

std::string header_of(const Json& table) {
  const std::string path = table.at("path"), type = table.value("type", "");
  const bool list = path.ends_with("[]");
  std::string header = list ? "[[" + path.substr(0, path.size() - 2) + "]]" : "[" + path + "]";
  if (!type.empty()) header += " type = \"" + type + "\"";
  return header;
}

std::string key_text(const Json& key) {
  const bool required = !key.contains("default") || key["default"].is_null();
  return key.value("name", "") +
         (required ? " (required)" : " = " + key["default"].get<std::string>());
}

std::string meaning_of(const Json& key) {
  return key.value("expected", "") + "; " + key.value("help", "");
}

const char* about_extends() { return kExtends; }

std::string reference_page(const Declarations& declarations) {
  std::string text = kHead;
  text += kExtends;
  text += "\n## Tables\n\n";
  for (const Json& table : declarations.tables()) text += table_section(table);
  std::vector<std::string> kinds;  // those of tables first, in their order
  const auto note = [&](const Json& of) {
    const std::string kind = of.value("kind", "");
    if (!kind.empty() && std::ranges::find(kinds, kind) == kinds.end()) kinds.push_back(kind);
  };
  for (const Json& table : declarations.tables()) note(table);
  for (const Json& item : declarations.items()) note(item);
  for (const std::string& kind : kinds) {
    const std::vector<Json> items = declarations.items(kind);
    if (items.empty()) continue;
    text += "## Items of the kind " + kind_word(kind) + "\n\n";
    for (const Json& item : items) text += item_section(item);
  }
  text.pop_back();  // the blank line at the end
  return text;
}

}  // namespace plait::cli
