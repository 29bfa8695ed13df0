// plait export: the weights of a checkpoint as files that other programs read.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
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

namespace fs = std::filesystem;

struct ExportArguments {
  std::vector<std::string> places;  // [FORMAT] CHECKPOINT OUT
  std::string experiment, dtype;
  std::vector<std::string> options, names;
  uint64_t max_shard_bytes = 0;
};

uint32_t dtype_of(const std::string& name) {
  return name == "f32" ? PLAIT_F32 : name == "bf16" ? PLAIT_BF16 : name == "f16" ? PLAIT_F16 : 0;
}

// The experiment that made a checkpoint: run.toml of its run directory, which is the path itself,
// or the folder above its folder of checkpoints.
std::string experiment_of(const std::string& checkpoint) {
  std::error_code ignored;
  if (!fs::exists(checkpoint, ignored))
    throw CliError(kUsage, "[export] '" + checkpoint +
                               "' does not exist; give a checkpoint or a run directory, as `plait "
                               "checkpoint ls` lists them");
  fs::path at = fs::absolute(checkpoint).lexically_normal();
  for (int up = 0; up < 3 && !at.empty(); ++up, at = at.parent_path())
    if (fs::is_regular_file(at / "run.toml", ignored)) return (at / "run.toml").string();
  throw CliError(kUsage,
                 "[export] there is no run.toml beside '" + checkpoint +
                     "', which tells its model; give the experiment with --experiment FILE");
}

// A name of a file of another kind would become a folder.
void check_kind(const std::string& out) {
  const std::string kind = fs::path(out).extension().string();
  std::error_code ignored;
  for (const char* other :
       {".pt", ".pth", ".bin", ".ckpt", ".npz", ".npy", ".gguf", ".onnx", ".h5"})
    if (kind == other && !fs::is_directory(out, ignored))
      throw CliError(kUsage, "[export] '" + out +
                                 "': weights are written as safetensors only; name "
                                 "NAME.safetensors, which safetensors.torch.load_file() reads, or "
                                 "a folder");
}

// A format behind the checkpoint would be the name of a folder.
void check_order(const Engine& engine, const std::vector<std::string>& places) {
  std::set<std::string> formats;
  for (const Json& item : Declarations(engine).items("plait.format/1"))
    formats.insert(item.at("name").get<std::string>());
  if (!formats.contains(places[1]) || formats.contains(places[0])) return;
  const bool folder = places.size() > 2;
  throw CliError(
      kUsage,
      "[export] the format " + places[1] + " comes first, the folder last: plait export " +
          places[1] + " " + path_word(places[0]) + " " +
          (folder ? path_word(places[2]) : "FOLDER; a folder of that name is ./" + places[1]));
}

int export_weights(Context& context, const ExportArguments& arguments) {
  const bool format = arguments.places.size() == 3;
  const std::string& checkpoint = arguments.places[format ? 1 : 0];
  check_kind(arguments.places.back());
  if (!format && !(arguments.options.empty() && arguments.experiment.empty()))
    throw CliError(kUsage,
                   "[export] --option and --experiment belong to a format: "
                   "plait export FORMAT CHECKPOINT OUT");
  Engine engine = context.open_engine();
  check_order(engine, arguments.places);
  context.failed = kUsage;  // a checkpoint or names that the command line gives
  Replaced old(context, "export", arguments.places.back());
  ExportSettings settings;
  settings.names = arguments.names;
  settings.max_shard_bytes = arguments.max_shard_bytes;
  settings.dtype = dtype_of(arguments.dtype);
  std::optional<Experiment> experiment;
  if (format) {
    settings.format = item_toml(arguments.places[0], arguments.options);
    const std::string& given = arguments.experiment;
    experiment = Experiment::read(engine, given.empty() ? experiment_of(checkpoint) : given, {});
    settings.experiment = experiment->get();
  }
  const Json done = Json::parse(naming_options("format", settings.format, [&] {
    return engine.export_checkpoint(checkpoint, arguments.places.back(), settings);
  }));
  old.done();
  context.terminal.record(done);
  for (const Json& file : done.at("files")) context.terminal.line(file.get<std::string>());
  context.terminal.line(counted(done.value("tensors", 0LL), "tensor") +
                        strf(" of step %lld, ", done.value("step", 0LL)) +
                        joined(done.value("dtypes", std::vector<std::string>()), " and "));
  return kOk;
}

}  // namespace

void add_export(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "export", "writes the weights of a checkpoint, of any ranks, as safetensors files");
  const auto arguments = std::make_shared<ExportArguments>();
  verb->add_option(
          "CHECKPOINT OUT", arguments->places,
          "a checkpoint, RUN/ckpt/best, or a run directory: its newest checkpoint; and a file "
          "NAME.safetensors, "
          "or "
          "a folder for model.safetensors, or for shards with their index. Before them a format, "
          "hf: the folder is one of Hugging Face, with config.json and the tokenizer; or peft: "
          "adapters of its library PEFT")
      ->required()
      ->expected(2, 3);
  verb->add_option("--rename", arguments->names,
                   "gives tensors other names; * stands for the same text on both sides; may be "
                   "repeated, the first rule that matches counts")
      ->type_name("OURS=THEIRS")
      ->allow_extra_args(false);
  verb->add_option(
          "--dtype", arguments->dtype,
          "type of the tensors; if not given, as they are, or with a format as in the weights "
          "that the model began with")
      ->type_name("f32|bf16|f16")
      ->check(CLI::IsMember({"f32", "bf16", "f16"}));
  verb->add_option("--max-shard-size", arguments->max_shard_bytes,
                   "size of a shard in a folder, for instance 500MB; 5GB if not given")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true));
  verb->add_option("--option", arguments->options, "an option of the format; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  verb->add_option("--experiment", arguments->experiment,
                   "the experiment of the checkpoint; run.toml of its run directory if not given")
      ->type_name("FILE");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return export_weights(context, *arguments); };
  });
}

}  // namespace plait::cli
