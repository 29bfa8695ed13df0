// The text of a progress bar for a state of training.
#pragma once

#include <cstdint>
#include <string>

namespace plait::observe {

struct ProgressState {
  int64_t step = 0, steps = 0;  // steps 0: unknown
  double loss = 0, lr = 0, samples_per_s = 0;
  double average_loss = 0;  // of the last steps; Progress computes it. 0: not known
  double epochs = 0;        // completed, with the part of the current one; 0: not known
  double tokens_per_s = 0;  // shown in place of samples if there are any
  double mfu = 0;           // 0: not known
  // Of the last evaluation; 0 samples: none yet. perplexity 0: the loss has none.
  int64_t evaluated_samples = 0;
  double evaluation_loss = 0, perplexity = 0;
  double elapsed_s = 0;    // of this process
  int64_t first_step = 0;  // step at which this process began: the estimate uses only its own pace
};

// A line of a terminal; `bar` may be empty.
struct ProgressLine {
  std::string before, bar, after;
  std::string text() const { return before + bar + after; }
};

// " 50 %  [#####-----]  500/1000  loss  0.2311  32.1k samples/s  0:10  ETA 0:10", in blocks of an
// eighth of a column with utf8. Values keep their widths, so the bar does. Where columns are few,
// values are left out, whole: step, loss and ETA last. Three columns stay free: a full line would
// wrap, and ^C comes behind it.
ProgressLine terminal_line(const ProgressState& state, int columns, bool utf8);

// "step 500/1000  loss 0.2311  lr 0.01  32.1k samples/s  ETA 0:10".
std::string plain_line(const ProgressState& state);

// Work in parts of equal size, such as the batches of an evaluation.
struct WorkState {
  int64_t done = 0, all = 0;
  double elapsed_s = 0;
};

// "evaluating  45 %  [####------]  45/100 batches  0:04  ETA 0:05", without the bar where there are
// too few columns, and cut off to them; three stay free.
std::string work_line(const std::string& what, const char* parts, const WorkState& state,
                      int columns, bool utf8);
// The same without a bar: "evaluating 45/100 batches  0:04  ETA 0:05".
std::string plain_work_line(const std::string& what, const char* parts, const WorkState& state);

}  // namespace plait::observe
