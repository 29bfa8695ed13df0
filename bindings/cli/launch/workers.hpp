// Processes that do one job together: started, watched, and ended together. Nothing here knows what they do.
//
// Worker 0 writes to our own stdout and stderr; the lines of the others come prefixed with "[rank N] ". A worker that ends leaves no
// process of its group behind, and the death of ours, however it comes, is theirs. When one fails, the others have `linger` seconds
// to end by themselves, then SIGTERM, then SIGKILL. The first SIGINT, SIGTERM or SIGHUP goes to all of them, and they have `grace`
// seconds; the second ends them at once.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace plait::cli {

struct Worker {
  std::string program;                   // file to execute
  std::vector<std::string> command;      // argv
  std::vector<std::string> environment;  // all of it, as NAME=value
  std::vector<int> inherit;              // descriptors that it gets, under the same numbers
  std::vector<int> cores;                // it may use; empty: as we
};

struct WatchSettings {
  double grace = 60;      // seconds from a signal to SIGKILL
  double linger = 5;      // from the first failure to SIGTERM
  double kill_delay = 5;  // from that to SIGKILL
  // Exit code of a worker that stopped because it was asked to: no failure.
  int interrupted = 4;
  // Takes the lines of workers but 0, prefixed; without a newline.
  std::function<void(std::string_view line)> relay;
  // One line of `reports`.
  std::function<void(std::string_view line)> on_report;
  int reports =
      -1;  // a pipe that workers write lines to, and of which somebody keeps the other end; borrowed
  std::function<void()>
      on_started;  // when all workers have been: what only they need can be closed
};

// How one worker ended.
struct ProcessExit {
  int code = 0;        // exit code, or 128 + signal
  int signal = 0;      // that it died of, or 0
  bool ended = false;  // by us, with a signal
  double seconds = 0;  // when, by the monotonic clock
};

struct WatchResult {
  std::vector<ProcessExit> exits;  // of each worker
  int signal = 0;                  // the first one that came to us, or 0
  int forwarded_signal = 0;        // what the workers got for it
  bool second_signal = false;      // a second one came
};

double monotonic_seconds();

// Starts all workers and returns when all have ended. Blocks the signals it waits for meanwhile, and reaps its own children only.
// Call from a process without other threads that take signals. Errors: std::system_error when a process cannot be started; those that
// were are gone then.
WatchResult watch(const std::vector<Worker>& workers, const WatchSettings& settings);

}  // namespace plait::cli
