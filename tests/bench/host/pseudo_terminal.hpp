// A terminal that nobody looks at, in place of a descriptor, for what is written to terminals alone.
#pragma once

#include <pty.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

namespace bench {

// While it exists. The terminal has 120 columns; a thread reads what is written and drops it.
class PseudoTerminal {
 public:
  explicit PseudoTerminal(int descriptor) : descriptor_(descriptor), before_(dup(descriptor)) {
    winsize size = {};
    size.ws_row = 40;
    size.ws_col = 120;
    int inner = -1;
    if (before_ < 0 || openpty(&outer_, &inner, nullptr, nullptr, &size) != 0)
      throw std::runtime_error("[bench] no terminal can be made (openpty)");
    dup2(inner, descriptor_);
    close(inner);
    reader_ = std::thread([this] {
      char text[4096];
      while (read(outer_, text, sizeof text) > 0) {  // fails when the other end is closed
      }
    });
  }
  ~PseudoTerminal() {
    dup2(before_, descriptor_);
    close(before_);
    reader_.join();
    close(outer_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

 private:
  const int descriptor_, before_;
  int outer_ = -1;
  std::thread reader_;
};

}  // namespace bench
