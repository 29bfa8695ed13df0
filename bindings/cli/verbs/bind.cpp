// plait bind: prints the complete experiment, with every default and its help.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/terminal/table.hpp"

namespace plait::cli {
namespace {

struct BindArguments {
  FileArguments file;
  bool origin = false, given = false;
};

// A line for each value: where it is written, and as what.
void show_origins(Context& context, const Json& values, bool given) {
  Table table("lll");
  for (const auto& [path, value] : values.items()) {
    const std::string origin = value.value("origin", "");
    if (given && origin == "default") continue;
    const std::string key = value.value("key", path);
    context.terminal.record({{"key", key}, {"value", value.at("value")}, {"origin", origin}});
    table.row({key, value.at("value").dump(), context.with_hints(origin)});
  }
  if (context.terminal.human()) context.terminal.raw(table.text());
}

int bind(Context& context, const BindArguments& arguments) {
  const FileArguments& file = arguments.file;
  Engine engine = context.open_engine();
  const Experiment experiment = Experiment::read(engine, file.path(), file.overrides());
  if (arguments.origin || arguments.given) {
    show_origins(context, Json::parse(experiment.describe()), arguments.given);
    return kOk;
  }
  const std::string toml = experiment.bind();
  if (context.terminal.human())
    context.terminal.raw(toml);
  else
    context.terminal.record(
        {{"schema", 1}, {"toml", toml}, {"values", Json::parse(experiment.describe())}});
  return kOk;
}

}  // namespace

void add_bind(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "bind", "prints the complete FILE: every key with its value, default and help");
  const auto arguments = std::make_shared<BindArguments>();
  add_file(*verb, arguments->file);
  verb->add_flag("--origin", arguments->origin,
                 "prints each key and where its value is from, in place of the file");
  verb->add_flag("--given", arguments->given, "the same without values that are defaults");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return bind(context, *arguments); };
  });
}

}  // namespace plait::cli
