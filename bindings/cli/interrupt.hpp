// SIGINT and SIGTERM ask a session to stop: it finishes the step, saves and returns. So do SIGHUP
// (a lost terminal), SIGQUIT, and SIGUSR1 and SIGUSR2, one of which a batch system sends before the
// time is up. The second signal has its default effect. A signal that was ignored stays so: nohup
// ignores SIGHUP.
#pragma once

#include <plait/plait.h>
#include <signal.h>

#include <array>

namespace plait::cli {

struct InterruptStyle {
  bool announce = true;  // print a line on stderr
  // For one of many ranks, or a run that no terminal started: the terminal, a launcher and a batch
  // system may deliver the same signal, so a second one within a second is ignored.
  bool debounce = false;
};

inline constexpr std::array kStopSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};

// While it exists, signals go to its session. At most one per process.
class Interrupt {
 public:
  explicit Interrupt(plait_session* session, InterruptStyle style = {});
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  // The first signal that came; 0: none.
  int signal() const;

 private:
  std::array<struct sigaction, kStopSignals.size()> before_;
};

}  // namespace plait::cli
