// The progress of a command that reads or writes much: a line on stderr that is redrawn, on a
// terminal, once the command has taken a second.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "bindings/cli/terminal/terminal.hpp"

namespace plait::cli {

// "verifying  45 % ████▌     of 1.2 GiB, 800 MiB/s, 1 s left", no longer than `columns`. unit: what
// is counted in place of bytes, "samples".
std::string bar_text(const std::string& what, uint64_t done, uint64_t total, double seconds,
                     int columns, bool utf8, const std::string& unit = {});

class Bar {
 public:
  Bar(const Terminal& terminal, std::string what, std::string unit = {});
  ~Bar() { clear(); }
  Bar(const Bar&) = delete;
  Bar& operator=(const Bar&) = delete;
  // Cheap when it is too early to redraw.
  void update(uint64_t done, uint64_t total);
  // Erases the line, for other text; the next update draws it again.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;
  const std::string what_, unit_;
  const bool utf8_, shown_;
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_ = begin_ + std::chrono::milliseconds(900);  // the first after a second
  bool on_screen_ = false;
};

}  // namespace plait::cli
