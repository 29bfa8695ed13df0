// The whole window of a terminal, for a view that is drawn again and again.
#pragma once

#include <signal.h>
#include <termios.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "bindings/cli/launch/fd.hpp"

namespace plait::cli {

// While it exists, the terminal shows the view instead of what was there, and keys are read as they
// are pressed. The destructor puts everything back, also when an exception ends the view; signals
// that end the process arrive as events. A second one ends the process at once: the view may wait
// for a file system or a terminal that is gone. At most one per process, on one thread.
class Screen {
 public:
  enum Key : int {  // besides letters
    kNothing = 0,   // the time is over, or the window has another size
    kUp = 256,
    kDown,
    kPageUp,
    kPageDown,
    kHome,
    kEnd,
    kOver,  // a signal that ends the view, see signal(), or a terminal that is gone
  };

  // Whether stdin and stdout are a terminal that can do this.
  static bool possible();
  Screen();
  ~Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  int columns() const;
  int rows() const;
  // Lines of at most columns() columns each, and rows() of them; further ones are left out.
  void show(const std::vector<std::string>& lines);
  // Waits for a key. Ctrl-Z stops the process; the view is there again when it continues.
  int wait(double seconds);
  // The signal behind kOver; 0: none.
  int signal() const { return ending_.load(); }

 private:
  void enter();
  void leave();
  void stop();
  void watch_signals();
  [[noreturn]] void end_at_once(int signal) const;
  void write(const std::string& text);
  int next_key();

  sigset_t mask_before_;
  termios settings_before_ = {};
  std::string keys_;  // bytes that were read and are no key yet
  bool gone_ = false;
  std::atomic<int> ending_{0};
  std::atomic<bool> stopping_{false};
  // Signals are blocked, and a thread takes them, so that it can act while the view is stuck.
  Fd signals_, woken_, over_;  // woken_: a signal has come; over_: the thread ends
  std::thread watcher_;
};

}  // namespace plait::cli
