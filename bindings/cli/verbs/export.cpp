// plait export: the weights of a checkpoint as files that other programs read.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

struct ExportArguments {
  std::string checkpoint, out;
  std::vector<std::string> names;
  uint64_t max_shard_bytes = 0;
};

int export_weights(Context& context, const ExportArguments& arguments) {
  Engine engine = context.open_engine();
  const Json done = Json::parse(engine.export_checkpoint(
      arguments.checkpoint, arguments.out, arguments.names, arguments.max_shard_bytes));
  context.terminal.record(done);
  for (const Json& file : done.at("files")) context.terminal.line(file.get<std::string>());
  context.terminal.line(
      strf("%llu tensors of step %lld", done.value("tensors", 0ULL), done.value("step", 0LL)));
  return kOk;
}

}  // namespace

void add_export(CLI::App& app, Context& context) {
  CLI::App* verb = app.add_subcommand(
      "export", "writes the weights of a checkpoint, of any ranks, as safetensors files");
  const auto arguments = std::make_shared<ExportArguments>();
  verb->add_option("CHECKPOINT", arguments->checkpoint,
                   "a checkpoint, or a run directory: its newest checkpoint")
      ->required();
  verb->add_option("OUT", arguments->out,
                   "a file NAME.safetensors; or a folder for model.safetensors, or for shards with "
                   "model.safetensors.index.json")
      ->required();
  verb->add_option("--rename", arguments->names,
                   "gives tensors other names; * stands for the same text on both sides; may be "
                   "repeated, the first rule that matches counts")
      ->type_name("OURS=THEIRS")
      ->allow_extra_args(false);
  verb->add_option("--max-shard-size", arguments->max_shard_bytes,
                   "size of a shard in a folder, for instance 500MB; 5GB if not given")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true));
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return export_weights(context, *arguments); };
  });
}

}  // namespace plait::cli
