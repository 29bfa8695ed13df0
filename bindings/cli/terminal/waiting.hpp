// What the command line does while it can tell no share of it, on stderr: on a terminal a line that
// is redrawn once a second has passed and erased at the end, elsewhere a line every ten seconds.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// "planning  0:07", on a thread of its own. Nothing with -q, of ranks other than 0, and where no
// thread can be started.
class Waiting {
 public:
  using Seconds = std::chrono::duration<double>;
  struct Times {
    Seconds first, next;
  };
  // On a terminal, elsewhere.
  static constexpr Times kTerminal{Seconds(1), Seconds(0.25)}, kPlain{Seconds(10), Seconds(10)};

  // shown: by run.progress.
  Waiting(const Terminal& terminal, std::string what, bool shown = true);
  ~Waiting() { end(); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  // Erases the line. The first call counts.
  void end();

 private:
  void work(Times times);
  using Clock = std::chrono::steady_clock;
  const std::string what_;
  const bool terminal_;
  const Clock::time_point begin_ = Clock::now();
  std::mutex mutex_;
  std::condition_variable over_;
  bool is_over_ = false;
  std::thread thread_;
};

// The line without its end; on a terminal of so many columns. seconds: since the beginning.
std::string waiting_text(const std::string& what, double seconds, int columns);

}  // namespace plait::cli
