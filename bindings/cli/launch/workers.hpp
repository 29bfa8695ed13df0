// Starts, watches and ends the processes of one job together. Independent of what they execute.
//
// Worker 0 writes to our own stdout and stderr; the lines of the others are prefixed with
// "[rank N] ". When a worker exits, the rest of its process group is killed; when this process
// dies, so do all workers. If a worker fails, the others have `linger` seconds to exit by
// themselves, then receive SIGTERM, then SIGKILL; if nothing has told them, `silent_linger`
// seconds. The first of kStopSignals is forwarded to all workers, which have `grace` seconds; the
// second kills them at once.
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
  std::vector<int> inherit;              // descriptors to inherit, under the same numbers
  std::vector<int> cores;                // to bind to; empty: inherit ours
};

struct WatchSettings {
  double grace = 60;  // seconds from a signal to SIGKILL
  double linger = 5;  // from the first failure to SIGTERM
  double silent_linger = 0.5;
  double kill_delay = 5;  // from that to SIGKILL
  double settle = 1;      // from the last report to on_settled
  // Exit code of a worker that stopped on request, which is not a failure.
  int interrupted = 4;
  // Whether the others cannot know that this worker has failed, which has ended.
  std::function<bool(size_t worker)> is_silent;
  // Receives the prefixed lines of workers other than 0, without newlines.
  std::function<void(std::string_view line)> relay;
  // One line of `reports`.
  std::function<void(std::string_view line)> on_report;
  // No report has come for `settle` seconds, or all workers have exited.
  std::function<void()> on_settled;
  // Borrowed pipe that workers write lines to, or -1; the caller keeps its write end open.
  int reports = -1;
  // Called when all workers are started: descriptors meant for them can be closed.
  std::function<void()> on_started;
};

// How one worker ended.
struct ProcessExit {
  int code = 0;        // exit code, or 128 + signal
  int signal = 0;      // that it died of, or 0
  bool ended = false;  // we sent it a signal
  double seconds = 0;  // when, by the monotonic clock
};

struct WatchResult {
  std::vector<ProcessExit> exits;  // of each worker
  int signal = 0;                  // the first one we received, or 0
  int forwarded_signal = 0;        // the signal forwarded to the workers
  bool second_signal = false;      // we received a second one
};

double monotonic_seconds();

// Starts all workers and returns when all have exited. Meanwhile it blocks the signals it waits
// for, and reaps only its own children. Call from a process without other threads that take
// signals. Errors: std::system_error if a process cannot be started; started ones have been killed
// by then.
WatchResult watch(const std::vector<Worker>& workers, const WatchSettings& settings);

}  // namespace plait::cli
