// metrics.ndjson: one JSON object per line, one write per line, appended.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "engine/base/files.hpp"
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
  double step_ms = 0;
  double samples_per_s = 0;
  bool skipped = false;  // written only when true: the step was not finite and changed nothing
  std::span<const NamedValue> more = {};
};

// {"schema":1,"run":...,"step":...,"samples":...,"time":...,"elapsed_s":...,"loss":...,"lr":...,
// "grad_norm":...,"step_ms":...,"samples_per_s":...}; events have "event" and no "loss". One
// thread.
class NdjsonWriter {
 public:
  static constexpr int kSchema = 1;

  // batch_ms > 0: lines are collected for that long and written together. 0: one write per line.
  // If an earlier process left an incomplete last line, a newline is written first.
  NdjsonWriter(FileSystem& files, const std::string& path, std::string run, int batch_ms = 0);
  ~NdjsonWriter();  // writes collected lines and ignores errors: call flush() to see them

  // Does not allocate. Errors: PLAIT_ERR_IO; PLAIT_ERR_INVALID when a line is over 16 KiB.
  void step(const StepRecord& record);
  // {"schema":1,"run":...,"event":event,"step":...,"time":..., values...}; event: "evaluate",
  // "checkpoint", "stop".
  void event(std::string_view event, int64_t step, double time,
             std::span<const NamedValue> values = {}, std::string_view text_name = {},
             std::string_view text = {});
  // {"event":"resume","from_step":n}: a reader ignores earlier lines whose step is above n.
  void resume(int64_t from_step, double time);
  void flush();

 private:
  void begin();
  void finish();
  std::unique_ptr<OutputFile> file_;
  std::string path_, run_;
  uint64_t batch_ns_;
  uint64_t last_write_ = 0;
  JsonLine line_;
  std::string gathered_;
};

}  // namespace plait::observe
