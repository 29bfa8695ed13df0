// The progress bar: one line that is redrawn on a terminal, or an occasional plain line elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "engine/base/clock.hpp"
#include "engine/observe/progress_line.hpp"

namespace plait::observe {

struct ProgressConfig {
  bool enabled = true;
  bool terminal = false;  // redraw the line
  TerminalStyle style = {};
  int (*measure)() = nullptr;  // the columns now, asked before each line; null: `style.columns`
  double terminal_every_s = 0.1, plain_every_s = 10;
  uint64_t (*clock)() = monotonic_ns;  // in nanoseconds

  uint64_t every_ns() const;        // between two lines
  TerminalStyle style_now() const;  // with the columns of now
};

// Settings for standard error: a bar on a terminal, as wide as its window, with colour unless
// NO_COLOR is set or TERM is "dumb", and in UTF-8 if the locale is.
ProgressConfig progress_config_for_stderr();

// Writes to standard error.
std::function<void(std::string_view)> stderr_sink();

// One thread. Lines are written in a buffer of its own: a step that draws one allocates nothing.
class Progress {
 public:
  using Sink = std::function<void(std::string_view)>;
  Progress(ProgressConfig config, Sink sink);
  // Writes to standard error.
  explicit Progress(ProgressConfig config);
  ~Progress();  // calls finish()

  // Cheap when it is too early to redraw.
  void update(const ProgressState& state);
  // Draws the last state and leaves the bar on the screen.
  void finish();

 private:
  void draw();
  void average(double loss);
  ProgressConfig config_;
  Sink sink_;
  LineText line_;
  ProgressState state_;
  double weighted_ = 0, weight_ = 0;  // of the losses so far
  uint64_t due_ = 0;                  // when to draw again, of the clock
  int64_t drawn_step_ = -1;
  bool have_state_ = false, finished_ = false;
};

}  // namespace plait::observe
