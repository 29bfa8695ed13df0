// SIGINT and SIGTERM ask a session to stop: it ends the step, saves and returns. The second signal does what it always did.
#pragma once

#include <plait/plait.h>
#include <signal.h>

namespace plait::cli {

struct InterruptStyle {
  bool announce = true;  // what is going to happen, on stderr
  // One of many ranks: the same signal may come twice, from the terminal and from the launcher. A second one within a second is none.
  bool debounce = false;
};

// While one lives, signals go to its session. One at a time in a process.
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
