// plait ops: what programs are made of, with attributes, types and gradients.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

void show_op(Terminal& t, const Json& op) {
  t.line(t.bold(op.value("name", "")) + ": " + op.value("help", ""));
  Table table("ll");
  for (const char* key : {"signature", "dtypes", "sharding"})
    if (const std::string text = op.value(key, ""); !text.empty()) table.row({key, text});
  table.row({"gradient", op.value("gradient", false) ? "yes" : "no"});
  for (const Json& a : op.value("attributes", Json::array())) {
    const bool required = a["default"].is_null();
    const std::string choices = a.value("choices", "");
    table.row(
        {a.value("name", "") + (required ? " (required)" : " = " + a["default"].get<std::string>()),
         a.value("type", "") + "; " + a.value("help", "") +
             (choices.empty() ? "" : "; one of " + choices)});
  }
  t.raw(table.text("  "));
}

int show_one(Context& context, const Json& all, const std::string& wanted) {
  const auto at = std::find_if(all.begin(), all.end(),
                               [&](const Json& op) { return op.value("name", "") == wanted; });
  if (at == all.end()) {
    std::vector<std::string> names;
    for (const Json& op : all) names.push_back(op.value("name", ""));
    const std::string near = nearest(wanted, names);
    throw CliError(kUsage, "[cli] there is no op '" + wanted + "'" +
                               (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                               "; plait ops lists them");
  }
  context.terminal.record(*at);
  if (context.terminal.human()) show_op(context.terminal, *at);
  return kOk;
}

int ops(Context& context, const std::string& name) {
  Engine engine = context.open_engine();
  const Json all = Json::parse(engine.ops()).value("ops", Json::array());
  if (!name.empty()) return show_one(context, all, name);
  Table table("ll");
  for (const Json& op : all) {
    context.terminal.record(op);
    table.row({op.value("name", ""), op.value("help", "")});
  }
  if (context.terminal.human()) context.terminal.raw(table.text());
  return kOk;
}

}  // namespace

void add_ops(CLI::App& app, Context& context) {
  CLI::App* verb =
      app.add_subcommand("ops", "lists the ops of programs; NAME: one with its attributes");
  const auto name = std::make_shared<std::string>();
  verb->add_option("NAME", *name, "an op to explain");
  verb->callback(
      [&context, name] { context.run_command = [&context, name] { return ops(context, *name); }; });
}

}  // namespace plait::cli
