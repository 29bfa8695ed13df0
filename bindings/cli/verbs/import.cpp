// plait import: the model of another library as an experiment.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"
#include "bindings/cli/help/declarations.hpp"
#include "bindings/cli/item_toml.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/runs/metrics.hpp"

namespace plait::cli {
namespace {

struct ImportArguments {
  std::string format;
  std::optional<std::string> folder, out;
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

constexpr const char* kFolder = "the folder of the model, whose weights stay there";
constexpr const char* kOut =
    "a new folder for experiment.toml, weights.map.json, config and tokenizer";

// A format that is none is told before what is missing behind it.
void check_given(const Engine& engine, const ImportArguments& given, const std::string& format) {
  if (given.out) return;
  const std::vector<Json> known = Declarations(engine).items("plait.format/1");
  const bool is_known = std::any_of(known.begin(), known.end(), [&](const Json& item) {
    return item.at("name") == given.format;
  });
  if (!is_known)  // says which there are
    naming_options("format", format, [&] { return engine.import_model(format, "", ""); });
  throw CliError(
      kUsage, "[cli] plait import needs " +
                  (given.folder ? std::string("OUT: ") + kOut : std::string("FOLDER: ") + kFolder) +
                  "; see plait import --help");
}

int import_model(Context& context, const ImportArguments& arguments) {
  Engine engine = context.open_engine();
  context.failed = kUsage;  // a model that is named on the command line, and is none
  const std::string format = item_toml(arguments.format, arguments.options);
  check_given(engine, arguments, format);
  const std::string &folder = *arguments.folder, &out = *arguments.out;
  Replaced old(context, "import", out);
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
  verb->add_option("FORMAT", arguments->format,
                   "hf: Hugging Face; peft: an adapter of its library PEFT, with --option "
                   "base=FOLDER; `plait plugins format` lists all")
      ->required();
  verb->add_option("FOLDER", arguments->folder, kFolder);  // missing: check_given()
  verb->add_option("OUT", arguments->out, kOut);
  verb->add_option("--option", arguments->options, "an option of the format; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return import_model(context, *arguments); };
  });
}

}  // namespace plait::cli
