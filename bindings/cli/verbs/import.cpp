// plait import: the model of another library as an experiment.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/item_toml.hpp"

namespace plait::cli {
namespace {

struct ImportArguments {
  std::string format, folder, out;
  std::vector<std::string> options;
};

int import_model(Context& context, const ImportArguments& arguments) {
  Engine engine = context.open_engine();
  const std::string format = item_toml(arguments.format, arguments.options);
  const Json done = Json::parse(naming_options("format", format, [&] {
    return engine.import_model(format, arguments.folder, arguments.out);
  }));
  context.terminal.record(done);
  for (const Json& file : done.at("files")) context.terminal.line(file.get<std::string>());
  context.terminal.line(strf("%llu parameters, %.1f MB of weights, read where they are: %s",
                             done.value("parameters", 0ULL), done.value("bytes", 0.0) / 1e6,
                             arguments.folder.c_str()));
  const std::string file = path_word(arguments.out + "/experiment.toml");
  context.terminal.line("to train: put your data into " + file + ", then: plait check " + file);
  return kOk;
}

}  // namespace

void add_import(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("import", "makes an experiment of another library's model");
  const auto arguments = std::make_shared<ImportArguments>();
  verb->add_option("FORMAT", arguments->format,
                   "hf: Hugging Face; peft: an adapter of its library PEFT, with --option "
                   "base=FOLDER; `plait plugins format` lists all")
      ->required();
  verb->add_option("FOLDER", arguments->folder, "the model; its weights stay there")->required();
  verb->add_option("OUT", arguments->out,
                   "new folder for experiment.toml, weights.map.json, config and tokenizer")
      ->required();
  verb->add_option("--option", arguments->options, "an option of the format; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return import_model(context, *arguments); };
  });
}

}  // namespace plait::cli
