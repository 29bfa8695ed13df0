// The progress bar: one line that is redrawn on a terminal, or an occasional plain line elsewhere.
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
  double tokens_per_s = 0;  // shown in place of samples if there are any
  double mfu = 0;           // 0: not known
  // Of the last evaluation; 0 samples: none yet. perplexity 0: the loss has none.
  int64_t evaluated_samples = 0;
  double evaluation_loss = 0, perplexity = 0;
  double elapsed_s = 0;    // of this process
  int64_t first_step = 0;  // step at which this process began: the estimate uses only its own pace
};

struct ProgressConfig {
  bool enabled = true;
  bool terminal = false;  // redraw the line
  bool color = false;
  int columns = 80;
  double terminal_every_s = 0.1, plain_every_s = 10;
};

// Settings for standard error: a bar on a terminal, with colour unless NO_COLOR is set or TERM is
// "dumb".
ProgressConfig progress_config_for_stderr();

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

  // The text for a state, without control characters: "step 120/1000 [####----] loss 0.231 lr 0.01
  // 32.1k samples/s ETA 0:12".
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
