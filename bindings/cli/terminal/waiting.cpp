#include "bindings/cli/terminal/waiting.hpp"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

namespace plait::cli {
namespace {

int stderr_columns() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// Signals are for the threads that know what to do with them.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::string waiting_text(const std::string& what, double seconds, int columns) {
  const auto s = static_cast<long long>(seconds);
  const std::string text = what + strf("  %lld:%02lld", s / 60, s % 60);
  // The last column stays free: a terminal may wrap behind it.
  return text.substr(0, static_cast<size_t>(std::max(columns - 1, 0)));
}

Waiting::Waiting(const Terminal& terminal, std::string what, bool shown)
    : what_(std::move(what)), terminal_(terminal.stderr_is_terminal()) {
  if (!shown || !terminal.progress()) return;
  const NoSignals none;
  try {
    thread_ = std::thread([this] { work(terminal_ ? kTerminal : kPlain); });
  } catch (const std::system_error&) {  // no thread: nothing is told
  }
}

void Waiting::end() {
  {
    const std::lock_guard lock(mutex_);
    is_over_ = true;
  }
  over_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Waiting::work(Times times) {
  std::unique_lock lock(mutex_);
  bool on_screen = false;
  for (Seconds wait = times.first; !over_.wait_for(lock, wait, [this] { return is_over_; });
       wait = times.next) {
    const double seconds = Seconds(Clock::now() - begin_).count();
    const std::string text = waiting_text(what_, seconds, terminal_ ? stderr_columns() : 1 << 20);
    std::fprintf(stderr, terminal_ ? "\r\033[K%s" : "%s\n", text.c_str());
    on_screen = terminal_;
  }
  if (on_screen) std::fputs("\r\033[K", stderr);
}

}  // namespace plait::cli
