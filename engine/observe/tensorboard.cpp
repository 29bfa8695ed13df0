#include "engine/observe/tensorboard.hpp"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/process.hpp"
#include "engine/base/text.hpp"
#include "engine/observe/protobuf.hpp"

namespace plait::observe {

using namespace protobuf;

namespace {

constexpr size_t kReserve = 64 * 1024;
constexpr int kFlushRecords = 100;
constexpr uint64_t kFlushNs = 1'000'000'000;

// wall_time = 1 double, step = 2 int64. Readers treat a NaN time as an error.
void begin_event(std::string& out, double unix_seconds, int64_t step) {
  out.clear();
  put_tag(out, 1, kFixed64);
  put_fixed(out, std::bit_cast<uint64_t>(std::isfinite(unix_seconds) ? unix_seconds : 0.0));
  if (step != 0) put_varint_field(out, 2, static_cast<uint64_t>(step));
}

std::string host_in_path() {
  std::string name = host_name();
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

std::string fresh_path(FileSystem& files, const std::string& folder, double unix_seconds) {
  const std::string base = join_path(
      folder, strf("events.out.tfevents.%010lld.%s.%lld.", static_cast<long long>(unix_seconds),
                   host_in_path().c_str(), static_cast<long long>(getpid())));
  for (int n = 0;; ++n)
    if (!files.exists(base + std::to_string(n))) return base + std::to_string(n);
}

// As record() writes them.
constexpr Units kRecords = {"records", [](std::string_view text) {
                              constexpr size_t kAround = 8 + 4 + 4;
                              uint64_t size = 0;
                              for (size_t i = 0; i < sizeof size && i < text.size(); ++i)
                                size |= uint64_t{static_cast<unsigned char>(text[i])} << 8 * i;
                              return static_cast<size_t>(size) + kAround;
                            }};

}  // namespace

TensorBoardWriter::TensorBoardWriter(FileSystem& files, const std::string& folder,
                                     double unix_seconds, Log& log)
    : file_(files, fresh_path(files, folder, unix_seconds), kRecords, log),
      last_write_(monotonic_ns()) {
  buffer_.reserve(kReserve);
  event_.reserve(1024);
  begin_event(event_, unix_seconds, 0);
  put_bytes(event_, 3, "brain.Event:2");
  record(event_);
  flush();
}

TensorBoardWriter::~TensorBoardWriter() { flush(); }

// length u64 | masked CRC of the length | payload | masked CRC of the payload
void TensorBoardWriter::record(std::string_view event) {
  const size_t start = buffer_.size();
  put_fixed(buffer_, static_cast<uint64_t>(event.size()));
  put_fixed(buffer_, masked_crc32c(buffer_.data() + start, 8));
  buffer_ += event;
  put_fixed(buffer_, masked_crc32c(event.data(), event.size()));
  const uint64_t now = monotonic_ns();
  if (++pending_ >= kFlushRecords || buffer_.size() >= kReserve / 2 ||
      now - last_write_ >= kFlushNs)
    flush();
}

void TensorBoardWriter::flush() {
  if (buffer_.empty()) return;
  last_write_ = monotonic_ns();
  file_.write(buffer_);
  buffer_.clear();
  pending_ = 0;
}

// Event{wall_time, step, summary = 5{value = 1{tag = 1, simple_value = 2 float}}}
void TensorBoardWriter::scalar(std::string_view tag, int64_t step, double unix_seconds,
                               double value) {
  begin_event(event_, unix_seconds, step);
  const size_t inner = bytes_field_size(tag.size()) + 5;
  put_tag(event_, 5, kBytes);
  put_varint(event_, bytes_field_size(inner));
  put_tag(event_, 1, kBytes);
  put_varint(event_, inner);
  put_bytes(event_, 1, tag);
  put_tag(event_, 2, kFixed32);
  put_fixed(event_, std::bit_cast<uint32_t>(static_cast<float>(value)));
  record(event_);
}

// Value{tag = 1, tensor = 8 TensorProto{dtype = 1: 7 (string), shape = 2 (scalar), string_val = 8},
//       metadata = 9{plugin_data = 1{plugin_name = 1: "text"}, data_class = 4: 2 (tensor)}}
void TensorBoardWriter::text(std::string_view tag, int64_t step, double unix_seconds,
                             std::string_view markdown) {
  std::string tensor, plugin, metadata, value, summary;
  put_varint_field(tensor, 1, 7);
  put_bytes(tensor, 2, "");
  put_bytes(tensor, 8, markdown);
  put_bytes(plugin, 1, "text");
  put_bytes(metadata, 1, plugin);
  put_varint_field(metadata, 4, 2);
  put_bytes(value, 1, tag);
  put_bytes(value, 8, tensor);
  put_bytes(value, 9, metadata);
  put_bytes(summary, 1, value);
  begin_event(event_, unix_seconds, step);
  put_bytes(event_, 5, summary);
  record(event_);
}

namespace {

// google.protobuf.Value{number_value = 2 double, string_value = 3, bool_value = 4} of a TOML value.
std::string protobuf_value(const std::string& toml) {
  std::string out;
  if (toml == "true" || toml == "false") {
    put_varint_field(out, 4, toml == "true" ? 1 : 0);
    return out;
  }
  double number = 0;
  const char* const end = toml.data() + toml.size();
  const auto [at, problem] = std::from_chars(toml.data(), end, number);
  // JSON, in which the page asks for them, has no infinity.
  if (problem == std::errc() && at == end && std::isfinite(number)) {
    put_tag(out, 2, kFixed64);
    put_fixed(out, std::bit_cast<uint64_t>(number));
  } else {
    const bool quoted = toml.size() >= 2 && toml.front() == '"' && toml.back() == '"';
    put_bytes(out, 3, quoted ? std::string_view(toml).substr(1, toml.size() - 2) : toml);
  }
  return out;
}

}  // namespace

// tensorboard/plugins/hparams/plugin_data.proto, version 0:
// Value{tag = 1, tensor = 8 TensorProto{dtype = 1: 1 (float), shape = 2{dim = 2{size = 1: 1}},
//       float_val = 5: 0}, metadata = 9{plugin_data = 1{plugin_name = 1: "hparams", content = 2}}}
void TensorBoardWriter::hparams_value(std::string_view tag, std::string_view data,
                                      double unix_seconds) {
  std::string size, shape, tensor, plugin, metadata, value, summary;
  put_varint_field(size, 1, 1);
  put_bytes(shape, 2, size);
  put_varint_field(tensor, 1, 1);
  put_bytes(tensor, 2, shape);
  put_bytes(tensor, 5, std::string_view("\0\0\0\0", 4));
  put_bytes(plugin, 1, "hparams");
  put_bytes(plugin, 2, data);
  put_bytes(metadata, 1, plugin);
  put_bytes(value, 1, tag);
  put_bytes(value, 8, tensor);
  put_bytes(value, 9, metadata);
  put_bytes(summary, 1, value);
  begin_event(event_, unix_seconds, 0);
  put_bytes(event_, 5, summary);
  record(event_);
}

// HParamsPluginData{session_start_info = 3 SessionStartInfo{hparams = 1 map<string, Value>,
//                   start_time_secs = 5 double}}
void TensorBoardWriter::hparams(const std::map<std::string, std::string>& settings,
                                double unix_seconds) {
  std::string start, data, entry;
  for (const auto& [name, value] : settings) {
    entry.clear();
    put_bytes(entry, 1, name);
    put_bytes(entry, 2, protobuf_value(value));
    put_bytes(start, 1, entry);
  }
  put_tag(start, 5, kFixed64);
  put_fixed(start, std::bit_cast<uint64_t>(unix_seconds));
  put_bytes(data, 3, start);
  hparams_value("_hparams_/session_start_info", data, unix_seconds);
}

// HParamsPluginData{session_end_info = 4 SessionEndInfo{status = 1: 1 success, 2 failure,
//                   end_time_secs = 2 double}}
void TensorBoardWriter::end_of_run(bool succeeded, double unix_seconds) {
  std::string end, data;
  put_varint_field(end, 1, succeeded ? 1 : 2);
  put_tag(end, 2, kFixed64);
  put_fixed(end, std::bit_cast<uint64_t>(unix_seconds));
  put_bytes(data, 4, end);
  hparams_value("_hparams_/session_end_info", data, unix_seconds);
}

void TensorBoardWriter::fenced(std::string_view tag, int64_t step, double unix_seconds,
                               std::string_view language, std::string_view code) {
  // The fence must be longer than any run of back quotes in the text.
  size_t longest = 2, run = 0;
  for (const char c : code) {
    run = c == '`' ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  const std::string fence(longest + 1, '`');
  std::string markdown = fence;
  markdown += language;
  markdown += '\n';
  markdown += code;
  if (!code.empty() && code.back() != '\n') markdown += '\n';
  markdown += fence;
  text(tag, step, unix_seconds, markdown);
}

}  // namespace plait::observe
