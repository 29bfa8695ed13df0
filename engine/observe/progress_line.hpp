// The text of a progress bar for a state of training. It is added to a line, without allocation.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/observe/line_text.hpp"

namespace plait::observe {

// What a terminal is told before a line that replaces the one on the screen.
inline constexpr std::string_view kEraseLine = "\r\x1b[K";

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

// How a terminal shows a line.
struct TerminalStyle {
  int columns = 80;
  bool utf8 = false;   // the bar in blocks of an eighth of a column
  bool color = false;  // of the bar of the training
};

// " 50 %  [#####-----]  500/1000  loss  0.2311  32.1k samples/s  0:10  ETA 0:10". Values keep
// their widths, so the bar does. Where columns are few, values are left out, whole: step, loss and
// ETA last. Three columns stay free: a full line would wrap, and ^C comes behind it.
void add_terminal_line(LineText& to, const ProgressState& state, const TerminalStyle& style);

// "step 500/1000  loss 0.2311  lr 0.01  32.1k samples/s  ETA 0:10".
void add_plain_line(LineText& to, const ProgressState& state);

// Work in parts of equal size, such as the batches of an evaluation.
struct WorkState {
  int64_t done = 0, all = 0;
  double elapsed_s = 0;
};

// "evaluating  45 %  [####------]  45/100 batches  0:04  ETA 0:05", without the bar where there are
// too few columns, and cut off to them; three stay free.
void add_work_line(LineText& to, std::string_view what, const char* parts, const WorkState& state,
                   const TerminalStyle& style);
// The same without a bar: "evaluating 45/100 batches  0:04  ETA 0:05".
void add_plain_work_line(LineText& to, std::string_view what, const char* parts,
                         const WorkState& state);

}  // namespace plait::observe
