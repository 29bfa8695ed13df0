// The whole window of a terminal, for a view that is drawn again and again.
#pragma once

#include <signal.h>
#include <termios.h>

#include <array>
#include <string>
#include <vector>

namespace plait::cli {

// While it exists, the terminal shows the view in place of what was there, and keys are read as they
// are pressed. The destructor puts everything back, also when an exception ends the view; signals
// that end the process arrive as events. At most one per process, on one thread.
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
  int signal() const;

 private:
  void enter();
  void leave();
  void stop();
  void write(const std::string& text);
  int next_key();

  static constexpr std::array kSignals = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH};
  std::array<struct sigaction, kSignals.size()> actions_before_;
  sigset_t mask_before_;
  termios settings_before_ = {};
  std::string keys_;  // bytes that were read and are no key yet
  bool gone_ = false;
};

}  // namespace plait::cli
