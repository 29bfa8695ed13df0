// Runs our own program several times, a few at a time.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace plait::cli {

struct PoolJob {
  std::vector<std::string> command;  // argv
  std::string log;                   // file for stdout and stderr, in a folder that is made if
                                     // there is none; appended to
};

struct PoolEnd {
  size_t job;    // its index
  int code;      // exit code, or 128 + signal
  bool stopped;  // the pool asked it to stop, and it did; with code 128 + SIGTERM nothing was saved
};

// Runs jobs in order, `at_once` at a time, each bound to its part of the cores. on_end is called
// in this thread as they end. The first of kStopSignals ends all of them with SIGTERM, so that they
// save, and no other is started; the second one kills them. When this process dies, they receive
// SIGTERM. Returns that signal; 0: all jobs ran.
// Errors: CliError(kEnvironment) if a process cannot be started; those that run have been ended by
// then.
int run_pool(const std::vector<PoolJob>& jobs, size_t at_once,
             const std::function<void(const PoolEnd&)>& on_end);

}  // namespace plait::cli
