#include "engine/observe/metrics.hpp"

#include <algorithm>
#include <memory>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"

namespace plait::observe {

namespace {

constexpr size_t kLineBytes = 16 * 1024;
constexpr size_t kGatherBytes = 256 * 1024;
constexpr size_t kMostWaiting = 64;

bool ends_torn(FileSystem& files, const std::string& path) {
  const FileInfo info = files.info(path);
  if (info.kind != FileKind::kRegular || info.size == 0) return false;
  const auto file = files.open_input(path);
  char last = '\n';
  if (file->size() > 0) file->read_at(file->size() - 1, &last, 1);
  return last != '\n';
}

}  // namespace

NdjsonWriter::NdjsonWriter(FileSystem& files, const std::string& path, std::string_view run,
                           Log& log, int batch_ms)
    : continues_(files.info(path).size > 0),
      torn_(ends_torn(files, path)),
      file_(files, path, kLines, log),
      batch_ns_(static_cast<uint64_t>(batch_ms > 0 ? batch_ms : 0) * 1'000'000u),
      last_write_(monotonic_ns()),
      line_(kLineBytes) {
  if (torn_) file_.write("\n");
  waiting_.reserve(kMostWaiting);
  gathered_.reserve(kGatherBytes);
  line_.open();
  line_.field("schema", int64_t{kSchema});
  line_.field("run", run);
  begin_ = line_.mark();
}

NdjsonWriter::~NdjsonWriter() { flush(); }

void NdjsonWriter::finish() {
  line_.close();
  line_.end_line();
  const std::string_view line = line_.text();
  if (line_.full())
    fail_invalid("[metrics] a line for " + file_.path() +
                 " needs more than 16 KiB; log fewer or shorter values");
  if (gathered_.size() + line.size() > kGatherBytes) write_gathered();
  gathered_.append(line);
}

void NdjsonWriter::flush() {
  write_waiting();
  write_gathered();
}

void NdjsonWriter::write_gathered() {
  if (gathered_.empty()) return;
  last_write_ = monotonic_ns();
  file_.write(gathered_);
  gathered_.clear();
}

namespace {

// What is known of tokens and FLOPs.
void write_rates(JsonLine& line, const StepRecord& r) {
  if (r.tokens > 0) {
    line.field("tokens", r.tokens);
    line.measured("tokens_per_s", r.tokens_per_s);
  }
  if (r.tflops > 0) line.field("tflops", r.tflops);
  if (r.mfu > 0) line.field("mfu", r.mfu);
  if (r.tflops_full <= r.tflops) return;
  line.field("tflops_full", r.tflops_full);
  if (r.mfu_full > 0) line.field("mfu_full", r.mfu_full);
}

}  // namespace

bool NdjsonWriter::has_names_of(const StepRecord& r) const {
  return std::equal(r.more.begin(), r.more.end(), names_.begin(),
                    names_.begin() + static_cast<std::ptrdiff_t>(n_names_),
                    [](const NamedValue& v, const std::string& name) { return v.name == name; });
}

void NdjsonWriter::take_names(const StepRecord& r) {
  // What a value takes beside its name, of which JSON escapes each byte in six at most; and more
  // than all other fields of a line take.
  constexpr size_t kOfValue = 32, kEscaped = 6, kOthers = 2048;
  const size_t n = r.more.size();
  n_names_ = 0;  // where memory ends, there are none
  if (names_.size() < n) names_.resize(n);
  size_t most = begin_.size + kOthers;
  for (size_t i = 0; i < n; ++i) {
    names_[i] = r.more[i].name;
    most += kOfValue + kEscaped * names_[i].size();
  }
  short_names_ = most <= kLineBytes;
  waiting_more_.reserve(n * kMostWaiting);
  n_names_ = n;
}

void NdjsonWriter::step(const StepRecord& r) {
  if (!has_names_of(r)) {
    write_waiting();
    take_names(r);
  }
  waiting_.push_back(r);
  waiting_.back().more = {};  // borrowed for this call
  for (const NamedValue& v : r.more) waiting_more_.push_back(v.value);
  // The error of a line that is too long belongs to its step.
  if (waiting_.size() == kMostWaiting || !short_names_) write_waiting();
  if (batch_ns_ == 0 || monotonic_ns() - last_write_ >= batch_ns_) flush();
}

void NdjsonWriter::write_waiting() {
  // A line that does not fit is the only one that waits, see step(); it is dropped.
  const auto clear = [this](void*) {
    waiting_.clear();
    waiting_more_.clear();
  };
  const std::unique_ptr<void, decltype(clear)> at_end(this, clear);
  for (size_t i = 0; i < waiting_.size(); ++i)
    write_line(waiting_[i], std::span(waiting_more_).subspan(i * n_names_, n_names_));
}

void NdjsonWriter::write_line(const StepRecord& r, std::span<const double> more) {
  line_.return_to(begin_);
  line_.field("step", r.step);
  line_.field("samples", r.samples);
  line_.measured("time", r.time);
  line_.measured("elapsed_s", r.elapsed_s);
  line_.field("loss", loss_.of(r.loss));
  line_.field("lr", rate_.of(r.lr));
  line_.field("grad_norm", r.grad_norm);
  line_.measured("step_ms", r.step_ms);
  line_.measured("samples_per_s", r.samples_per_s);
  line_.field("mean_loss", loss_.of(r.mean_loss));  // that of one step is the loss
  write_rates(line_, r);
  if (r.grad_norm_clipped) line_.field("grad_norm_clipped", *r.grad_norm_clipped);
  if (r.loss_scale > 0) line_.field("loss_scale", r.loss_scale);
  if (r.skipped) line_.field("skipped", true);
  if (r.skipped_steps > 0) line_.field("skipped_steps", r.skipped_steps);
  for (size_t i = 0; i < more.size(); ++i) line_.field(std::string_view(names_[i]), more[i]);
  finish();
}

void NdjsonWriter::add_event(std::string_view event, int64_t step, double time,
                             std::span<const NamedValue> values, std::string_view text_name,
                             std::string_view text) {
  write_waiting();
  line_.return_to(begin_);
  line_.field("event", event);
  line_.field("step", step);
  line_.field("time", time);
  for (const NamedValue& v : values) line_.field(v.name, v.value);
  if (!text_name.empty()) line_.field(text_name, text);
  finish();
}

void NdjsonWriter::event(std::string_view event, int64_t step, double time,
                         std::span<const NamedValue> values, std::string_view text_name,
                         std::string_view text) {
  add_event(event, step, time, values, text_name, text);
  flush();
}

void NdjsonWriter::resume(int64_t from_step, double time) {
  write_waiting();
  line_.return_to(begin_);
  line_.field("event", "resume");
  line_.field("from_step", from_step);
  line_.field("time", time);
  finish();
  flush();
}

}  // namespace plait::observe
