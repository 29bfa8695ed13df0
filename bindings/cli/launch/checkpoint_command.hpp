// Verbs that use a checkpoint on a dataset, on the ranks of its experiment or in one process.
#pragma once

#include <string>

#include "bindings/cli/launch/on_ranks.hpp"

namespace plait::cli {

struct CheckpointArguments {
  FileArguments file;
  std::string checkpoint, dataset = "eval", adapter;
  bool one_rank = false;
  int64_t ranks = 0;
};

// Adds FILE with key=value..., --checkpoint, --dataset, --adapter, --one-rank and --ranks to a
// verb. does: "evaluates".
void add_checkpoint_arguments(CLI::App& verb, CheckpointArguments& to, const std::string& does);

// Runs the command, which saves nothing, where the arguments say. doing: "evaluate".
int run_on_checkpoint(Context& context, const CheckpointArguments& arguments,
                      const std::string& doing, RankedCommand command);

}  // namespace plait::cli
