// plait run as a launcher: the ranks of one job as processes of this machine.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/launch/workers.hpp"

namespace plait::cli {

struct LocalJob {
  int ranks = 1;
  std::vector<std::string> command;  // argv of each rank
  double grace = 60;
  std::function<void(std::string_view line)> relay;
};

// What became of a job, in words and as an exit code.
struct JobOutcome {
  int code = 0;      // of the rank that failed first; 4 interrupted and saved; 128 + signal
  int rank = -1;     // that failed first
  std::string text;  // "" when there is nothing to say
};

// Runs `command` of our own program once per rank with PLAIT_* and the variables of torchrun set, a secret and a socket, and its share
// of the cores. Errors: CliError(kEnvironment) when the machine has no process, socket or memory for it.
JobOutcome run_local(const LocalJob& job);

// The judgement of run_local: who began, of all that failed.
JobOutcome find_root_cause(const WatchResult& result, const std::vector<FailureReport>& reports,
                           double grace);

}  // namespace plait::cli
