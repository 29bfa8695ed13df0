// Commands that every rank of a job runs: as one of its ranks, or as the launcher of all of them.
#pragma once

#include <cstdint>
#include <functional>

#include "bindings/cli/context.hpp"
#include "bindings/cli/ranks.hpp"

namespace plait::cli {

struct RankedCommand {
  // Sees the experiment first, which lives as long as the work. Errors: CliError for one that the
  // command cannot use.
  std::function<void(const Experiment&)> inspect;
  // Further overrides, of in_one_process(), by the values of the experiment; may be empty.
  std::function<std::vector<std::string>(const Json& values)> overrides;
  // The command with the plan of this rank; its exit code.
  std::function<int(const Plan&, const RankInfo&)> work;
  int64_t ranks = 0;      // to start on this machine; 0: as many as [topology] asks for
  double grace = 60;      // seconds that ranks have to end after a signal
  bool saves = true;      // on a signal, before it ends
  int64_t restarts = 0;   // of a job that dies; above 0 a single rank is a process of its own, too
  std::string other_way;  // where processes are not as many as ranks: ends the message; may be ""
};

// A process that a launcher started is one rank. Otherwise an experiment of one rank runs here; one
// of several is planned, so that its errors are reported once, and each rank becomes a process that
// runs this command line. Only rank 0 prints. Returns the exit code.
int on_ranks(Context& context, const FileArguments& file, const RankedCommand& command);
// The same in this process alone, whatever ranks the file asks for and whoever started it.
int in_one_process(Context& context, const FileArguments& file, const RankedCommand& command);

}  // namespace plait::cli
