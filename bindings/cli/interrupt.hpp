// SIGINT and SIGTERM ask a session to stop: it finishes the step, saves and returns. The second
// signal has its default effect.
#pragma once

#include <plait/plait.h>
#include <signal.h>

namespace plait::cli {

struct InterruptStyle {
  bool announce = true;  // print a line on stderr
  // For one of many ranks: the terminal and the launcher may both deliver the same signal, so a
  // second one within a second is ignored.
  bool debounce = false;
};

// While it exists, signals go to its session. At most one per process.
class Interrupt {
 public:
  explicit Interrupt(plait_session* session, InterruptStyle style = {});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

 private:
  struct sigaction before_int_, before_term_;
};

}  // namespace plait::cli
