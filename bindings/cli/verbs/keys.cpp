// plait keys: what an experiment may contain, from the declarations of the engine and its plugins.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/declarations.hpp"
#include "bindings/cli/help/reference.hpp"
#include "bindings/cli/terminal/cells.hpp"
#include "bindings/cli/terminal/definitions.hpp"

namespace plait::cli {
namespace {

struct KeysArguments {
  std::vector<std::string> words;
  bool markdown = false;
};

// "model.layers" and "model.layers[]" alike.
bool is_path(const Json& table, const std::string& word) {
  const auto is = [&](const Json& path) { return path == word || path == word + "[]"; };
  const Json& also = table.at("also");
  return is(table.at("path")) || header_of(table) == word ||
         std::any_of(also.begin(), also.end(), is);
}

// "early_stop" of "evaluate.early_stop", "groups" of "optimizer.groups[]".
bool is_last_part(const std::string& path, const std::string& word) {
  return path.ends_with("." + word) || path.ends_with("." + word + "[]");
}

// "data.train.normalize" and "normalize" of "data.NAME.normalize.FIELD": a table of tables.
bool is_above_fields(const std::string& path, const std::string& word) {
  constexpr std::string_view kField = ".FIELD";
  if (!path.ends_with(kField)) return false;
  const std::string above = path.substr(0, path.size() - kField.size());
  return is_path_of(word, above) || is_last_part(above, word);
}

void show_rows(Terminal& t, const std::string& title, const std::string& help, const Json& keys) {
  constexpr int kWidest = 34, kIndent = 2, kGap = 2;  // longer names have a line of their own
  t.paragraph(t.bold(title) + "  " + help);
  int begin = 6;
  for (const Json& key : keys) {
    const int width = kIndent + columns_of(key_text(key), t.utf8()) + kGap;
    if (width <= kWidest || t.columns() == 0) begin = std::max(begin, width);
  }
  for (const Json& key : keys)
    t.raw(definition(key_text(key), meaning_of(key), begin, t.columns(), t.utf8()));
}

// A table with all its keys, or with the one of a name.
void show_table(Context& context, const Json& table, const std::string& key) {
  Json shown = table, keys = Json::array();
  for (const Json& one : table.at("keys"))
    if (key.empty() || one.at("name") == key) keys.push_back(one);
  shown["keys"] = keys;
  context.terminal.record(shown);
  if (context.terminal.human())
    show_rows(context.terminal, header_of(table), table.value("help", ""), keys);
}

void show_key_item(Context& context, const Json& item) {
  context.terminal.record(item);
  if (context.terminal.human())
    show_rows(context.terminal, kind_word(item.at("kind")) + " " + item.value("name", ""),
              item.value("help", ""), item.at("options"));
}

bool has_key(const Json& keys, const std::string& name) {
  for (const Json& key : keys)
    if (key.at("name") == name) return true;
  return false;
}

// Whether the word is the path of a table, a key, a table's key, or an item.
bool show_keys_of(Context& context, const Declarations& all, const std::string& word) {
  bool found = false;
  const size_t dot = word.rfind('.');
  const std::string before = word.substr(0, dot == std::string::npos ? 0 : dot),
                    last = word.substr(dot == std::string::npos ? 0 : dot + 1);
  for (const Json& table : all.tables()) {
    const std::string path = table.at("path");
    const bool named = is_path(table, word) || is_path_of(word, path) || is_last_part(path, word) ||
                       is_above_fields(path, word);
    const bool holds = has_key(table.at("keys"), last) &&
                       (before.empty() || is_path(table, before) || is_path_of(before, path));
    if (!named && !holds) continue;
    found = true;
    show_table(context, table, named ? "" : last);
  }
  for (const Json& item : all.items())
    if (item.at("name") == word || (before.empty() && has_key(item.at("options"), word))) {
      found = true;
      show_key_item(context, item);
    }
  return found;
}

int keys(Context& context, const KeysArguments& arguments) {
  const Engine engine = context.open_engine();
  const Declarations all(engine);
  if (arguments.markdown) {
    const std::string page = reference_page(all);
    context.terminal.record({{"markdown", page}});
    if (context.terminal.human()) context.terminal.raw(page);
    return kOk;
  }
  std::vector<std::string> names;
  for (const Json& table : all.tables()) {
    if (arguments.words.empty()) show_table(context, table, "");
    names.push_back(table.at("path"));
    for (const Json& key : table.at("keys")) names.push_back(key.at("name"));
  }
  for (const Json& item : all.items()) names.push_back(item.at("name"));
  for (const std::string& word : arguments.words) {
    if (word == "extends") {  // no value of an experiment: it is gone when a file was read
      context.terminal.record({{"key", word}, {"help", about_extends()}});
      if (context.terminal.human()) context.terminal.raw(about_extends());
      continue;
    }
    if (show_keys_of(context, all, word)) continue;
    const std::string near = nearest(word, names);
    throw CliError(kUsage, "[cli] there is no key, table or item '" + word + "'" +
                               (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                               "; plait keys lists the tables and their keys");
  }
  return kOk;
}

}  // namespace

void add_keys(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "keys", "lists what an experiment may contain; WORD: a table, a key or an item");
  const auto arguments = std::make_shared<KeysArguments>();
  verb->add_option("WORDS", arguments->words,
                   "a table (optimizer), a key (learning_rate, run.seed) or an item (linear)");
  verb->add_flag("--markdown", arguments->markdown, "prints the page of all tables and items");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return keys(context, *arguments); };
  });
}

}  // namespace plait::cli
