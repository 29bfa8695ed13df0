#include "bindings/cli/launch/checkpoint_command.hpp"

#include <CLI/CLI.hpp>

#include "bindings/cli/item_toml.hpp"

namespace plait::cli {

void add_checkpoint_arguments(CLI::App& verb, CheckpointArguments& to, const std::string& does) {
  add_file(verb, to.file);
  verb.add_option(
          "--checkpoint", to.checkpoint,
          "a checkpoint, RUN/ckpt/best, or a run directory: its newest checkpoint; default: "
          "FILE, if that is a run directory")
      ->type_name("DIR");
  verb.add_option("--dataset", to.dataset, does + " the samples of [data.NAME]")
      ->type_name("NAME")
      ->capture_default_str();
  verb.add_option("--adapter", to.adapter,
                  "with model.adapter_field: " + does +
                      " every sample with this adapter, whatever it carries; base: with the model "
                      "alone; default: each takes its own")
      ->type_name("NAME");
  verb.add_flag("--one-rank", to.one_rank,
                does + " in one process, whatever [topology] asks for; the figures are the same");
  add_ranks(verb, to.ranks);
}

int run_on_checkpoint(Context& context, const CheckpointArguments& arguments,
                      const std::string& doing, RankedCommand command) {
  command.saves = false;
  command.ranks = arguments.ranks;
  command.other_way = "; or " + doing + " in one process, with --one-rank";
  FileArguments file = arguments.file;
  if (!arguments.adapter.empty())
    file.positional.push_back("evaluate.adapter=" + toml_value(arguments.adapter));
  return arguments.one_rank ? in_one_process(context, file, command)
                            : on_ranks(context, file, command);
}

}  // namespace plait::cli
