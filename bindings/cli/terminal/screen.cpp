#include "bindings/cli/terminal/screen.hpp"

#include <poll.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string_view>

namespace plait::cli {
namespace {

// A signal handler has no user argument, so these are global.
std::atomic<int> ending{0};
std::atomic<bool> stopping{false};

// Resizing needs no more than that it ends ppoll().
void on_signal(int signal) {
  if (signal == SIGTSTP)
    stopping.store(true);
  else if (signal != SIGWINCH)
    ending.store(signal);
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
int Screen::signal() const { return ending.load(); }

Screen::Screen() {
  ending.store(0);
  stopping.store(false);
  // Signals wait until ppoll(): none can come between a look at the flags and the wait.
  sigset_t mask;
  sigemptyset(&mask);
  struct sigaction action = {};
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  for (size_t i = 0; i < kSignals.size(); ++i) {
    sigaddset(&mask, kSignals[i]);
    sigaction(kSignals[i], nullptr, &actions_before_[i]);
    // nohup ignores SIGHUP, and that stays so.
    if (actions_before_[i].sa_handler != SIG_IGN) sigaction(kSignals[i], &action, nullptr);
  }
  sigprocmask(SIG_BLOCK, &mask, &mask_before_);
  tcgetattr(STDIN_FILENO, &settings_before_);
  enter();
}

Screen::~Screen() {
  leave();
  for (size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_before_[i], nullptr);
  sigprocmask(SIG_SETMASK, &mask_before_, nullptr);
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
  stopping.store(false);
  struct sigaction ours = {}, normal = {};
  normal.sa_handler = SIG_DFL;
  sigaction(SIGTSTP, &normal, &ours);
  raise(SIGTSTP);
  sigset_t mask, before;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTSTP);
  sigprocmask(SIG_UNBLOCK, &mask, &before);  // stops here until SIGCONT
  sigprocmask(SIG_SETMASK, &before, nullptr);
  sigaction(SIGTSTP, &ours, nullptr);
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
  const auto whole = static_cast<time_t>(seconds);
  const timespec time = {whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  pollfd input = {STDIN_FILENO, POLLIN, 0};
  const int ready = gone_ ? 0 : ppoll(&input, 1, &time, &mask_before_);
  if (stopping.load()) stop();
  if (gone_ || ending.load()) return kOver;
  if (ready <= 0) return kNothing;
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
