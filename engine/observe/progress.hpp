// The progress bar: one line on a terminal that is drawn over, or a plain line now and then elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

namespace plait::observe {

struct ProgressState {
  int64_t step = 0, steps = 0;  // steps 0: unknown
  double loss = 0, lr = 0, samples_per_s = 0;
  double elapsed_s = 0;    // of this process
  int64_t first_step = 0;  // where this process began: what is left is estimated from its own pace
};

struct ProgressConfig {
  bool enabled = true;
  bool terminal = false;  // draw over the line
  bool color = false;
  int columns = 80;
  double terminal_every_s = 0.1, plain_every_s = 10;
};

// What fits standard error: a bar on a terminal, colour unless NO_COLOR is set or TERM is "dumb".
ProgressConfig progress_config_for_stderr();

// Thread-safe: the log and the loop share it.
class Progress {
 public:
  using Sink = std::function<void(std::string_view)>;
  Progress(ProgressConfig config, Sink sink);
  // To standard error.
  explicit Progress(ProgressConfig config);
  ~Progress();  // finishes

  // Cheap when it is too early to draw.
  void update(const ProgressState& state);
  // A line of the log: goes above the bar. Without newline.
  void line(std::string_view text);
  // Draws the last state and leaves the bar where it is.
  void finish();

  // The text of a state, without control characters: "step 120/1000 [####----] loss 0.231 lr 0.01 32.1k samples/s ETA 0:12".
  static std::string render(const ProgressState& state, int columns, bool bar);

 private:
  void draw();
  ProgressConfig config_;
  Sink sink_;
  std::mutex mutex_;
  ProgressState state_;
  uint64_t last_draw_ = 0;
  int64_t drawn_step_ = -1;
  bool have_state_ = false, shown_ = false, finished_ = false;
};

}  // namespace plait::observe
