// metrics.ndjson: one JSON object per line, appended; a write has whole lines.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/files.hpp"
#include "engine/base/log.hpp"
#include "engine/observe/appended_file.hpp"
#include "engine/observe/json_line.hpp"

namespace plait::observe {

// A named value: a metric of an evaluation, a second model's loss. The name is borrowed for the
// call.
struct NamedValue {
  std::string_view name;
  double value = 0;
};

struct StepRecord {
  int64_t step = 0;     // optimizer steps done, including this one
  int64_t samples = 0;  // samples seen so far
  double time = 0;      // unix seconds
  double elapsed_s = 0;
  double loss = 0;
  double lr = 0;
  double grad_norm = 0;
  double step_ms = 0;  // of this step
  // Over the steps since the last line.
  double samples_per_s = 0;
  double mean_loss = 0;
  double tflops = 0, tflops_full = 0;  // 0: not written; full: only if it differs
  double mfu = 0, mfu_full = 0;        // 0: not known, and not written
  // Written if there are tokens.
  int64_t tokens = 0;
  double tokens_per_s = 0;
  std::optional<double> grad_norm_clipped = {};  // of a run that clips
  bool skipped = false;       // written only when true: the step was not finite and changed nothing
  int64_t skipped_steps = 0;  // so far; written only when there are any
  double loss_scale = 0;      // written only when above 0
  std::span<const NamedValue> more = {};
};

// {"schema":1,"run":...,"step":...,"samples":...,"time":...,"elapsed_s":...,"loss":...,"lr":...,
// "grad_norm":...,"step_ms":...,"samples_per_s":...,"mean_loss":...}; events have "event" and no
// "loss". One thread.
class NdjsonWriter {
 public:
  static constexpr int kSchema = 1;

  // batch_ms > 0: steps are collected that long and written together, so that a process that is
  // killed loses no more; a step that takes longer is written at once, and so is an event.
  // 0: one write per line.
  // If an earlier process left an incomplete last line, a newline is written first. log: is told of
  // errors of writing, which are not thrown (appended_file.hpp). Errors: PLAIT_ERR_IO.
  NdjsonWriter(FileSystem& files, const std::string& path, std::string_view run, Log& log,
               int batch_ms = 0);
  ~NdjsonWriter();  // writes collected lines

  // Does not allocate while the names stay the same. Errors: PLAIT_ERR_INVALID when a line is over
  // 16 KiB.
  void step(const StepRecord& record);
  // {"schema":1,"run":...,"event":event,"step":...,"time":..., values...}; event: "evaluate",
  // "checkpoint", "checkpoint_failed" (the text "error"), "statistics" (the text "tensor"), "stop".
  void event(std::string_view event, int64_t step, double time,
             std::span<const NamedValue> values = {}, std::string_view text_name = {},
             std::string_view text = {});
  // The same, but it is written with the next flush() or event().
  void add_event(std::string_view event, int64_t step, double time,
                 std::span<const NamedValue> values = {}, std::string_view text_name = {},
                 std::string_view text = {});
  // {"event":"resume","from_step":n}: a reader ignores earlier lines whose step is above n.
  void resume(int64_t from_step, double time);
  void flush();
  bool continues() const { return continues_; }  // the file had lines before

 private:
  bool has_names_of(const StepRecord& record) const;
  void take_names(const StepRecord& record);
  void write_waiting();
  void write_line(const StepRecord& record, std::span<const double> more);
  void finish();
  void write_gathered();

  bool continues_, torn_;
  AppendedFile file_;
  uint64_t batch_ns_;
  uint64_t last_write_ = 0;
  JsonLine line_;
  JsonLine::Mark begin_;    // behind what all lines begin with
  NumberText loss_, rate_;  // the texts that were written last
  // Steps that are not lines yet. They become lines together: behind the step of a model this
  // code is no longer in the caches, and fetching it takes longer than running it.
  std::vector<StepRecord> waiting_;
  std::vector<double> waiting_more_;  // the values of StepRecord::more, one record after another
  std::vector<std::string> names_;    // theirs; the first n_names_ count
  size_t n_names_ = 0;
  bool short_names_ = true;  // a line with them fits
  std::string gathered_;     // lines
};

}  // namespace plait::observe
