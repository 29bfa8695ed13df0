// plait checkpoint convert: a checkpoint written again, as files of whole tensors.
#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <plait/checkpoint.hpp>

#include "bindings/cli/context.hpp"
#include "bindings/cli/data/stop_request.hpp"
#include "bindings/cli/replaced.hpp"
#include "bindings/cli/runs/metrics.hpp"
#include "bindings/cli/terminal/bar.hpp"

namespace plait::cli {
namespace {

struct ConvertArguments {
  std::string checkpoint, out;
  uint32_t shards = 0;
  uint64_t max_shard_bytes = 0;
  bool no_optimizer = false;
};

int convert(Context& context, const ConvertArguments& arguments) {
  Engine engine = context.open_engine();
  Replaced old(context, "checkpoint", arguments.out);
  const StopRequest stop;
  Bar bar(context.terminal, "writing");
  ConvertSettings settings;
  settings.shards = arguments.shards;
  settings.max_shard_bytes = arguments.max_shard_bytes;
  settings.optimizer = !arguments.no_optimizer;
  settings.progress = [&](uint64_t done, uint64_t total) {
    bar.update(done, total);
    return stop.asked();
  };
  const Json done =
      Json::parse(convert_checkpoint(engine, arguments.checkpoint, arguments.out, settings));
  old.done();
  bar.clear();
  context.terminal.record(done);
  for (const Json& file : done.at("files")) context.terminal.line(file.get<std::string>());
  context.terminal.line(counted(done.value("tensors", 0LL), "tensor") +
                        strf(" of step %lld, ", done.value("step", 0LL)) +
                        bytes_text(done.value("bytes", 0.0)));
  return kOk;
}

}  // namespace

void add_checkpoint_convert(CLI::App& checkpoint, Context& context) {
  CLI::App* verb = checkpoint.add_subcommand(
      "convert", "writes a checkpoint of any ranks again, as files of whole tensors");
  const auto arguments = std::make_shared<ConvertArguments>();
  verb->add_option("CHECKPOINT", arguments->checkpoint,
                   "a checkpoint, RUN/ckpt/best, or a run directory: its newest checkpoint")
      ->required()
      ->type_name("PATH");
  verb->add_option("OUT", arguments->out,
                   "the new checkpoint, a folder; RUN/ckpt/step-0000001000, to resume from it")
      ->required()
      ->type_name("DIR");
  CLI::Option* shards =
      verb->add_option("--shards", arguments->shards,
                       "files of parameters, and of states, at most; 1 if not given")
          ->type_name("N")
          ->check(whole_number(1));
  verb->add_option("--max-shard-size", arguments->max_shard_bytes,
                   "size of a file, for instance 5GB, instead of their number")
      ->type_name("SIZE")
      ->transform(CLI::AsSizeValue(true))
      ->excludes(shards);
  verb->add_flag("--no-optimizer", arguments->no_optimizer,
                 "without the optimizer's states: to evaluate or generate, not to resume");
  verb->callback([&context, arguments] {
    context.run_command = [&context, arguments] { return convert(context, *arguments); };
  });
}

}  // namespace plait::cli
