// plait bind: prints the complete experiment, with every default and its help.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

int bind(Context& context, const FileArguments& file) {
  Engine engine = context.open_engine();
  const Experiment experiment = Experiment::read(engine, file.path(), file.overrides());
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
  const auto file = std::make_shared<FileArguments>();
  add_file(*verb, *file);
  verb->callback([&context, file] {
    context.run_command = [&context, file] { return bind(context, *file); };
  });
}

}  // namespace plait::cli
