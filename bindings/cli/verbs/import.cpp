// plait import: the model of another library as an experiment.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/declarations.hpp"
#include "bindings/cli/help/usage.hpp"
#include "bindings/cli/item_toml.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/runs/metrics.hpp"

namespace plait::cli {
namespace {

struct ImportArguments {
  std::vector<std::string> places;  // FORMAT FOLDER OUT
  std::vector<std::string> options;
};

// The data may be there: named by the base of an adapter, or in the data folder.
std::string how_to_train(const Engine& engine, const std::string& file) {
  const std::string word = path_word(file);
  const std::string generic = "put your data into " + word + ", then: plait check " + word;
  Json values;
  try {
    values = Json::parse(Experiment::read(engine, file, {}).describe());
  } catch (const HostError&) {  // the check tells why
    return generic;
  }
  const auto at = values.find("data.train.path");
  if (at == values.end() || !at->at("value").is_string()) return generic;
  const auto path = at->at("value").get<std::string>();
  std::error_code ignored;
  const bool found = std::filesystem::path(path).has_parent_path();  // else it is as written
  if (found && std::filesystem::exists(path, ignored)) return "plait run " + word;
  return "write the data '" + path + "', which " + at->at("origin").get<std::string>() +
         " names and which is not there, or name yours in [data.train] of " + word +
         "; then: plait check " + word;
}

constexpr const char* kFormat =
    "hf: Hugging Face; peft: an adapter of its library PEFT, with --option base=FOLDER; `plait "
    "plugins format` lists all";
constexpr const char* kFolder = "the folder of the model, whose weights stay there";
constexpr const char* kOut =
    "a new folder for experiment.toml, weights.map.json, config and tokenizer";

// A format that is none is told before what is missing behind it.
void check_given(const Engine& engine, const std::vector<std::string>& places) {
  if (places.size() == 3) return;
  std::vector<std::string> formats;
  for (const Json& item : Declarations(engine).items("plait.format/1"))
    formats.push_back(item.at("name").get<std::string>());
  if (std::find(formats.begin(), formats.end(), places[0]) == formats.end()) {
    const std::string near = nearest(places[0], formats);
    throw CliError(kUsage, "[import] unknown format '" + places[0] + "'" +
                               (near.empty() ? "" : " (did you mean '" + near + "'?)") +
                               "; known are: " + joined(formats, ", "));
  }
  throw CliError(kUsage, "[cli] plait import needs " +
                             (places.size() == 1 ? std::string("FOLDER: ") + kFolder
                                                 : std::string("OUT: ") + kOut) +
                             "; see plait import --help");
}

int import_model(Context& context, const ImportArguments& arguments) {
  Engine engine = context.open_engine();
  check_given(engine, arguments.places);
  const std::string &folder = arguments.places[1], &out = arguments.places[2];
  context.failed = kUsage;  // a model that is named on the command line, and is none
  Replaced old(context, "import", out);
  const std::string format = item_toml(arguments.places[0], arguments.options);
  const Json done = Json::parse(
      naming_options("format", format, [&] { return engine.import_model(format, folder, out); }));
  old.done();
  context.terminal.record(done);
  for (const Json& file : done.at("files")) context.terminal.line(file.get<std::string>());
  context.terminal.line(
      counted(done.value("parameters", 0LL), "tensor") +
      strf(", %.1f MB, read from %s, not copied", done.value("bytes", 0.0) / 1e6, folder.c_str()));
  context.terminal.line("to train: " + how_to_train(engine, out + "/experiment.toml"));
  return kOk;
}

}  // namespace

void add_import(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand("import", "makes an experiment of another library's model");
  const auto arguments = std::make_shared<ImportArguments>();
  verb->add_option("FORMAT FOLDER OUT", arguments->places,
                   std::string(kFormat) + "; then " + kFolder + ", and " + kOut)
      ->required()
      ->expected(1, 3);
  verb->add_option("--option", arguments->options, "an option of the format; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return import_model(context, *arguments); };
  });
}

}  // namespace plait::cli
