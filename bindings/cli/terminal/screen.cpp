#include "bindings/cli/terminal/screen.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <system_error>

#include "bindings/cli/context.hpp"

namespace plait::cli {
namespace {

// Those that are not ignored: nohup ignores SIGHUP, and that stays so.
sigset_t watched_signals() {
  sigset_t mask;
  sigemptyset(&mask);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) {
    struct sigaction now = {};
    if (sigaction(signal, nullptr, &now) == 0 && now.sa_handler != SIG_IGN)
      sigaddset(&mask, signal);
  }
  return mask;
}

[[noreturn]] void fail_watching(const std::string& why) {
  throw CliError(kEnvironment,
                 "[cli] the window cannot be watched: " + why + "; --once prints one screen");
}

Fd opened(int fd) {
  if (fd < 0) fail_watching(std::strerror(errno));
  return Fd(fd);
}

void set_event(const Fd& event) {
  const uint64_t one = 1;
  while (::write(event.get(), &one, sizeof one) < 0 && errno == EINTR) {
  }
}

// The other screen, without a cursor, and without going on in the next line where a letter is wider
// than was thought.
constexpr const char* kEnter = "\033[?1049h\033[?25l\033[?7l\033[2J";
constexpr const char* kLeave = "\033[0m\033[?7h\033[?25h\033[?1049l";

winsize window() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) size = {};
  if (size.ws_col == 0) size.ws_col = 80;  // a serial line does not know
  if (size.ws_row == 0) size.ws_row = 24;
  return size;
}

struct Sequence {
  std::string_view bytes;
  int key;
};
constexpr Sequence kSequences[] = {
    {"\033[A", Screen::kUp},   {"\033[B", Screen::kDown},    {"\033OA", Screen::kUp},
    {"\033OB", Screen::kDown}, {"\033[5~", Screen::kPageUp}, {"\033[6~", Screen::kPageDown},
    {"\033[H", Screen::kHome}, {"\033[F", Screen::kEnd},     {"\033OH", Screen::kHome},
    {"\033OF", Screen::kEnd},  {"\033[1~", Screen::kHome},   {"\033[4~", Screen::kEnd},
};

// How many bytes a sequence has that is none of those: up to its final letter.
size_t unknown_sequence(const std::string& keys) {
  if (keys.size() < 2 || (keys[1] != '[' && keys[1] != 'O')) return 1;
  size_t n = 2;
  while (n < keys.size() && (keys[n] < '@' || keys[n] > '~')) ++n;
  return n < keys.size() ? n + 1 : n;
}

}  // namespace

bool Screen::possible() {
  const char* term = std::getenv("TERM");
  return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && term && *term &&
         std::string_view(term) != "dumb";
}

int Screen::columns() const { return window().ws_col; }
int Screen::rows() const { return window().ws_row; }

Screen::Screen() {
  const sigset_t mask = watched_signals();
  signals_ = opened(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
  woken_ = opened(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  over_ = opened(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  sigprocmask(SIG_BLOCK, &mask, &mask_before_);
  tcgetattr(STDIN_FILENO, &settings_before_);
  try {
    watcher_ = std::thread([this] { watch_signals(); });
  } catch (const std::system_error& e) {
    sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
    fail_watching("no thread can be started (limits: ulimit -u and -v): " + e.code().message());
  }
  enter();
}

Screen::~Screen() {
  leave();
  set_event(over_);
  watcher_.join();
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
}

// A new size needs no more than that the view wakes.
void Screen::watch_signals() {
  for (;;) {
    pollfd from[] = {{signals_.get(), POLLIN, 0}, {over_.get(), POLLIN, 0}};
    poll(from, 2, -1);
    if (from[1].revents != 0) return;
    signalfd_siginfo info;
    if (::read(signals_.get(), &info, sizeof info) != sizeof info) continue;
    const auto signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGTSTP)
      stopping_.store(true);
    else if (signal != SIGWINCH && ending_.exchange(signal) != 0)
      end_at_once(signal);
    set_event(woken_);
  }
}

// Waits for nothing: neither the view nor the terminal may answer any more.
void Screen::end_at_once(int signal) const {
  tcflush(STDOUT_FILENO, TCOFLUSH);
  pollfd ready = {STDOUT_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0)
    (void)!::write(STDOUT_FILENO, kLeave, std::strlen(kLeave));
  tcsetattr(STDIN_FILENO, TCSANOW, &settings_before_);
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, signal);
  pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
  raise(signal);
  _exit(128 + signal);
}

void Screen::enter() {
  termios raw = settings_before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);  // Ctrl-C remains a signal
  raw.c_cc[VMIN] = 0;
  raw.c_cc[VTIME] = 0;
  tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  write(kEnter);
}

void Screen::leave() {
  write(kLeave);
  tcsetattr(STDIN_FILENO, TCSAFLUSH, &settings_before_);
}

void Screen::stop() {
  leave();
  stopping_.store(false);
  sigset_t mask, before;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTSTP);
  pthread_sigmask(SIG_UNBLOCK, &mask, &before);
  raise(SIGTSTP);  // stops here until SIGCONT
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  enter();
}

void Screen::write(const std::string& text) {
  for (size_t at = 0; at < text.size() && !gone_;) {
    const ssize_t n = ::write(STDOUT_FILENO, text.data() + at, text.size() - at);
    if (n > 0) {
      at += static_cast<size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      pollfd ready = {STDOUT_FILENO, POLLOUT, 0};
      poll(&ready, 1, 1000);
    } else if (n == 0 || errno != EINTR) {
      gone_ = true;
    }
  }
}

// A line is erased before it is written: behind its last column that would erase a letter.
void Screen::show(const std::vector<std::string>& lines) {
  std::string text = "\033[H";
  const auto most = static_cast<size_t>(rows());
  for (size_t i = 0; i < std::min(lines.size(), most); ++i)
    text += (i ? "\r\n\033[0m\033[2K" : "\033[0m\033[2K") + lines[i];
  // What is below, likewise.
  write(text + (lines.size() < most ? "\033[0m\r\n\033[J" : "\033[0m"));
}

int Screen::next_key() {
  if (keys_.empty()) return kNothing;
  for (const auto& [bytes, key] : kSequences)
    if (keys_.starts_with(bytes)) {
      keys_.erase(0, bytes.size());
      return key;
    }
  const size_t n = keys_[0] == '\033' ? unknown_sequence(keys_) : 1;
  const int key = n == 1 ? static_cast<unsigned char>(keys_[0]) : static_cast<int>(kNothing);
  keys_.erase(0, n);
  return key;
}

int Screen::wait(double seconds) {
  if (const int key = next_key()) return key;
  pollfd from[] = {{STDIN_FILENO, POLLIN, 0}, {woken_.get(), POLLIN, 0}};
  pollfd& input = from[0];
  if (!gone_) poll(from, 2, static_cast<int>(std::ceil(seconds * 1e3)));
  uint64_t n_signals;
  if (from[1].revents != 0) (void)!::read(woken_.get(), &n_signals, sizeof n_signals);
  if (stopping_.load()) stop();
  if (gone_ || ending_.load() != 0) return kOver;
  if (input.revents == 0) return kNothing;
  char bytes[64];
  const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
  if (n <= 0) {
    gone_ = n == 0 ? (input.revents & POLLHUP) != 0 : errno != EINTR && errno != EAGAIN;
    return gone_ ? kOver : kNothing;
  }
  keys_.append(bytes, static_cast<size_t>(n));
  return next_key();
}

}  // namespace plait::cli
