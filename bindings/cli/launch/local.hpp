// plait run as a launcher: runs the ranks of one job as processes of this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/launch/report.hpp"
#include "bindings/cli/launch/workers.hpp"

namespace plait::cli {

struct LocalJob {
  int ranks = 1;
  std::vector<std::string> command;  // argv of each rank
  double grace = 60;
  bool saves = true;                       // ranks save on a signal
  int64_t restart = 0, most_restarts = 0;  // of this start; those that there may be
  std::function<void(std::string_view line)> relay;
  std::function<void(const FailureReport&)> print;  // a failure that its rank does not print
};

// The outcome of a job, as an exit code and a message.
struct JobOutcome {
  int code = 0;      // of the rank that failed first; 4 interrupted and saved; 128 + signal
  int rank = -1;     // that failed first
  std::string text;  // "" without a failure
  // Another start may not fail: a process was killed by a signal that nobody asked for, or a rank
  // lost others, a file, memory or a device. No fault of the experiment or of its numbers.
  bool may_pass = false;
  std::string run_dir = {};  // "": rank 0 has not come to it
  bool unsaved = false;      // it was asked to end, and had done nothing yet
};

// Runs our own program with `command` once per rank, with PLAIT_* and torchrun's variables, a
// secret, a socket and a part of the cores. Errors: CliError(kEnvironment) if the machine lacks a
// process, socket or memory.
JobOutcome run_local(const LocalJob& job);

// Finds the rank that failed first; used by run_local.
JobOutcome find_root_cause(const WatchResult& result, const std::vector<FailureReport>& reports,
                           const LocalJob& job);

}  // namespace plait::cli
