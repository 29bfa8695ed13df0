#include "bindings/cli/terminal/bar.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

namespace plait::cli {
namespace {

int stderr_columns() {
  winsize size = {};
  return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

// share: 0 to 1.
std::string blocks(double share, int cells, bool utf8) {
  constexpr const char* kEighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  const int eighths = static_cast<int>(share * cells * 8), full = eighths / 8;
  std::string text;
  for (int i = 0; i < full; ++i) text += utf8 ? "█" : "#";
  int left = cells - full;
  if (utf8 && eighths % 8 != 0) text += kEighths[eighths % 8], --left;
  return text + std::string(static_cast<size_t>(std::max(left, 0)), utf8 ? ' ' : '.');
}

}  // namespace

std::string bar_text(const std::string& what, uint64_t done, uint64_t total, double seconds,
                     int columns, bool utf8, const std::string& unit) {
  constexpr int kCells = 20;
  const double of = static_cast<double>(total),
               share = total > 0 ? static_cast<double>(done) / of : 1;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  const std::string head = strf("%s %3.0f %%", what.c_str(), 100 * share);
  const auto amount = [&](double n) { return unit.empty() ? bytes_text(n) : strf("%.0f", n); };
  std::string tail = " of " + amount(of) + (unit.empty() ? "" : " " + unit);
  if (rate > 0)
    tail += ", " + amount(rate) + strf("/s, %.0f s left", (of - static_cast<double>(done)) / rate);
  // The last column stays free: a terminal may wrap behind it.
  const auto room = static_cast<size_t>(std::max(columns - 1, 0));
  if (head.size() + 1 + kCells + tail.size() <= room)
    return head + " " + blocks(share, kCells, utf8) + tail;
  return (head.size() + tail.size() <= room ? head + tail : head).substr(0, room);
}

Bar::Bar(const Terminal& terminal, std::string what, std::string unit)
    : what_(std::move(what)),
      unit_(std::move(unit)),
      utf8_(terminal.utf8()),
      shown_(terminal.progress() && terminal.stderr_is_terminal()) {}

void Bar::clear() {
  if (on_screen_) std::fputs("\r\033[K", stderr);
  on_screen_ = false;
}

void Bar::update(uint64_t done, uint64_t total) {
  if (!shown_) return;
  const Clock::time_point now = Clock::now();
  if (now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  on_screen_ = true;
  const double seconds = std::chrono::duration<double>(now - begin_).count();
  std::fprintf(stderr, "\r\033[K%s",
               bar_text(what_, done, total, seconds, stderr_columns(), utf8_, unit_).c_str());
}

}  // namespace plait::cli
