// A terminal that nobody looks at, in place of a descriptor: some text goes to terminals alone.
#pragma once

#include <pty.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

namespace bench {

// While it exists. The terminal has 120 columns; a thread reads what is written, and counts the
// lines that are erased to be drawn again.
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
    reader_ = std::thread([this] { read_all(); });
  }
  ~PseudoTerminal() {
    end();
    close(outer_);
  }
  // Ends it, and returns how many lines were erased.
  int end() {
    if (reader_.joinable()) {
      dup2(before_, descriptor_);
      close(before_);
      reader_.join();
    }
    return erased_;
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

 private:
  void read_all() {
    char text[4096], last = 0;
    // It fails when the other end is closed.
    for (ssize_t n; (n = read(outer_, text, sizeof text)) > 0;)
      for (ssize_t i = 0; i < n; ++i) {
        if (last == '[' && text[i] == 'K') ++erased_;  // "\x1b[K"
        last = text[i];
      }
  }
  const int descriptor_, before_;
  int outer_ = -1;
  int erased_ = 0;  // by the reader
  std::thread reader_;
};

}  // namespace bench
