// plait plugins: loaded plugins, refused ones with reasons, the options of items, the metadata of a
// file.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/declarations.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

struct PluginsArguments {
  std::vector<std::string> words;
  bool report = false;
};

std::string item_title(const Json& item) {
  return kind_word(item.value("kind", "")) + " " + item.value("name", "");
}

void show_list(Terminal& t, const Json& registry) {
  for (const Json& plugin : registry.value("plugins", Json::array())) {
    t.paragraph(t.bold(plugin.value("name", "")) + " " + plugin.value("version", "") + "  " +
                plugin.value("summary", "") + "  " + t.dim(plugin.value("path", "")));
    Table table("ll");
    for (const Json& item : plugin.value("items", Json::array()))
      if (kind_word(item.value("kind", "")) != "kernel")
        table.row({item_title(item), item.value("help", "")});
    t.raw(table.with_texts("  ", t.columns(), t.utf8()));
  }
}

void show_report(Terminal& t, const Json& registry) {
  for (const Json& entry : registry.value("report", Json::array())) {
    t.paragraph(entry.value("outcome", "") + "  " + entry.value("path", "") + "  (" +
                entry.value("source", "") + ")");
    if (const std::string reason = entry.value("reason", ""); !reason.empty())
      t.paragraph("    " + reason);
    if (const std::string fix = entry.value("fix", ""); !fix.empty()) t.paragraph("    " + fix);
  }
}

void show_item(Terminal& t, const Json& plugin, const Json& item) {
  t.paragraph(t.bold(item_title(item)) + ": " + item.value("help", "") + "  (" +
              plugin.value("name", "") + " " + plugin.value("version", "") + ")");
  Table table("ll");
  for (const Json& option : item.value("options", Json::array())) {
    const bool required = !option.contains("default") || option["default"].is_null();
    table.row({option.value("name", "") +
                   (required ? " (required)" : " = " + option.value("default", "")),
               option.value("expected", "") + "; " + option.value("help", "")});
  }
  if (item.contains("learning_rate"))
    table.row({"learning_rate, weight_decay", "number >= 0; by default " +
                                                  item["learning_rate"].dump() + " and " +
                                                  item["weight_decay"].dump()});
  t.raw(table.empty() ? "  no options of its own\n"
                      : table.with_texts("  ", t.columns(), t.utf8()));
}

int show_items(Context& context, const Json& registry, const std::string& wanted) {
  std::vector<std::string> names;
  bool found = false;
  for (const Json& plugin : registry.value("plugins", Json::array()))
    for (const Json& item : plugin.value("items", Json::array())) {
      names.push_back(item.value("name", ""));
      const std::string kind = kind_word(item.value("kind", ""));
      if (kind == "kernel") continue;
      if (names.back() != wanted && plugin.value("name", "") != wanted && kind != wanted) continue;
      found = true;
      if (context.terminal.human()) show_item(context.terminal, plugin, item);
      Json record = item;
      record["plugin"] = plugin.value("name", "");
      context.terminal.record(record);
    }
  if (found) return kOk;
  const std::string near = nearest(wanted, names);
  throw CliError(kUsage,
                 "[cli] no loaded plugin has an item '" + wanted + "'" +
                     (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                     "; plait plugins lists all items, plait plugins --report lists refused files");
}

int inspect(Context& context, const std::string& path) {
  const Json facts = Json::parse(inspect_plugin(path));
  context.terminal.record(facts);
  Table table("ll");
  for (const auto& [key, value] : facts.items())
    table.row({key, value.is_string() ? value.get<std::string>() : value.dump()});
  Terminal& t = context.terminal;
  if (t.human()) t.raw(table.with_texts("", t.columns(), t.utf8()));
  if (facts.value("note", Json()).is_null())
    throw CliError(kEnvironment,
                   "[cli] '" + path +
                       "' is not a Plait plugin: it has no Plait note; build plugins with "
                       "plait_add_plugin()");
  return kOk;
}

int plugins(Context& context, const PluginsArguments& arguments) {
  const auto& words = arguments.words;
  if (!words.empty() && words[0] == "inspect") {
    if (words.size() != 2) throw CliError(kUsage, "[cli] write it as: plait plugins inspect FILE");
    return inspect(context, words[1]);
  }
  Engine engine = context.open_engine();
  const Json registry = Json::parse(engine.describe()).value("registry", Json::object());
  for (const std::string& word : words) show_items(context, registry, word);
  if (!words.empty()) return kOk;
  context.terminal.record(registry);
  if (!context.terminal.human()) return kOk;
  if (arguments.report)
    show_report(context.terminal, registry);
  else
    show_list(context.terminal, registry);
  return kOk;
}

}  // namespace

void add_plugins(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("plugins",
                                      "lists plugins and items; WORD: options of an item or of all "
                                      "items of a kind; inspect FILE: read a plugin's metadata "
                                      "without loading it");
  const auto arguments = std::make_shared<PluginsArguments>();
  verb->add_option("WORDS", arguments->words,
                   "an item, a plugin or a kind (layer, optimizer, ...), or: inspect FILE");
  verb->add_flag("--report", arguments->report,
                 "lists every file that was tried, with reason and fix");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return plugins(context, *arguments); };
  });
}

}  // namespace plait::cli
