#include "bindings/cli/interrupt.hpp"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include <atomic>

namespace plait::cli {
namespace {

constexpr int64_t kPatience = 1'000'000'000;  // nanoseconds

// A signal handler has no user argument, so these are global.
std::atomic<plait_session*> current{nullptr};
std::atomic<bool> says{true}, debounces{false};
std::atomic<int64_t> first{0};  // time of the first signal, monotonic clock; 0: none
std::atomic<int> first_signal{0};
static_assert(std::atomic<plait_session*>::is_always_lock_free &&
                  std::atomic<int64_t>::is_always_lock_free,
              "a signal handler may not lock");

int64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1'000'000'000 + t.tv_nsec;
}

bool was_ignored(int signal) {
  struct sigaction now = {};
  return sigaction(signal, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

void restore_defaults() {
  struct sigaction normal = {};
  normal.sa_handler = SIG_DFL;
  for (const int signal : kStopSignals)
    if (!was_ignored(signal)) sigaction(signal, &normal, nullptr);
}

void on_signal(int signal) {
  const int kept = errno;
  if (const int64_t before = first.load()) {
    if (now() - before >= kPatience) {
      restore_defaults();
      raise(signal);  // delivered when this handler returns
    }
    errno = kept;
    return;
  }
  first.store(now());
  first_signal.store(signal);
  if (!debounces) restore_defaults();
  if (plait_session* session = current.load()) plait_session_cancel(session);
  constexpr char kText[] =
      "\n[cli] finishing this step and saving; press Ctrl-C again to stop at once\n";
  if (signal == SIGINT && says && write(STDERR_FILENO, kText, sizeof kText - 1) < 0) errno = kept;
  errno = kept;
}

}  // namespace

Interrupt::Interrupt(plait_session* session, InterruptStyle style) {
  current.store(session);
  says.store(style.announce);
  debounces.store(style.debounce);
  first.store(0);
  first_signal.store(0);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kStopSignals.size(); ++i) {
    sigaction(kStopSignals[i], nullptr, &before_[i]);
    if (before_[i].sa_handler != SIG_IGN) sigaction(kStopSignals[i], &action, nullptr);
  }
}

int Interrupt::signal() const { return first_signal.load(); }

Interrupt::~Interrupt() {
  for (size_t i = 0; i < kStopSignals.size(); ++i) sigaction(kStopSignals[i], &before_[i], nullptr);
  current.store(nullptr);
}

}  // namespace plait::cli
