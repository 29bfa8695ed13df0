// The progress bar: one line that is redrawn on a terminal, or an occasional plain line elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>

#include "engine/observe/progress_line.hpp"

namespace plait::observe {

struct ProgressConfig {
  bool enabled = true;
  bool terminal = false;  // redraw the line
  bool color = false;
  bool utf8 = false;
  int columns = 80;
  int (*measure)() = nullptr;  // the columns now, asked before each line; null: `columns`
  double terminal_every_s = 0.1, plain_every_s = 10;
};

// Settings for standard error: a bar on a terminal, as wide as its window, with colour unless
// NO_COLOR is set or TERM is "dumb", and in UTF-8 if the locale is.
ProgressConfig progress_config_for_stderr();

// Writes to standard error.
std::function<void(std::string_view)> stderr_sink();

// Thread-safe: shared by the log and the training loop.
class Progress {
 public:
  using Sink = std::function<void(std::string_view)>;
  Progress(ProgressConfig config, Sink sink);
  // Writes to standard error.
  explicit Progress(ProgressConfig config);
  ~Progress();  // calls finish()

  // Cheap when it is too early to redraw.
  void update(const ProgressState& state);
  // Prints a line of the log above the bar. Without newline.
  void line(std::string_view text);
  // Draws the last state and leaves the bar on the screen.
  void finish();

 private:
  void draw();
  void average(double loss);
  ProgressConfig config_;
  Sink sink_;
  std::mutex mutex_;
  ProgressState state_;
  double weighted_ = 0, weight_ = 0;  // of the losses so far
  uint64_t last_draw_ = 0;
  int64_t drawn_step_ = -1;
  bool have_state_ = false, shown_ = false, finished_ = false;
};

}  // namespace plait::observe
