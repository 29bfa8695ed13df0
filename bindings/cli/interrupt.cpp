#include "bindings/cli/interrupt.hpp"

#include <errno.h>
#include <unistd.h>

#include <atomic>

namespace plait::cli {
namespace {

// A signal handler gets no argument of ours, so this one variable belongs to the process.
std::atomic<plait_session*> current{nullptr};
static_assert(std::atomic<plait_session*>::is_always_lock_free, "a handler may not lock");

void on_signal(int signal) {
  const int kept = errno;
  struct sigaction normal = {};
  normal.sa_handler = SIG_DFL;
  sigaction(SIGINT, &normal, nullptr);
  sigaction(SIGTERM, &normal, nullptr);
  if (plait_session* session = current.load()) plait_session_cancel(session);
  constexpr char kText[] =
      "\n[cli] stopping after this step and saving; once more to stop at once\n";
  if (signal == SIGINT && write(STDERR_FILENO, kText, sizeof kText - 1) < 0) errno = kept;
  errno = kept;
}

}  // namespace

Interrupt::Interrupt(plait_session* session) {
  current.store(session);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &before_int_);
  sigaction(SIGTERM, &action, &before_term_);
}

Interrupt::~Interrupt() {
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
  current.store(nullptr);
}

}  // namespace plait::cli
