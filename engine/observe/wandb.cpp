#include "engine/observe/wandb.hpp"

#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "engine/base/clock.hpp"
#include "engine/base/error.hpp"
#include "engine/base/json.hpp"
#include "engine/base/text.hpp"
#include "engine/observe/protobuf.hpp"

namespace plait::observe {

using namespace protobuf;

namespace {

constexpr size_t kBlock = 32 * 1024, kHead = 7;  // of the log; a head: CRC, length, part
constexpr uint64_t kFlushNs = 1'000'000'000;
constexpr std::string_view kFolder = "offline-run-";

enum Part : uint8_t { kFull = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

// Members of Record.
enum Member : uint32_t { kHistory = 2, kSummary = 3, kRun = 17, kExit = 18, kHeader = 21 };

// CRC-32 of zlib; `crc` continues an earlier one.
uint32_t crc32(std::string_view data, uint32_t crc = 0) {
  static constexpr auto kTable = [] {
    std::array<uint32_t, 256> table{};
    for (uint32_t i = 0; i < 256; ++i) {
      table[i] = i;
      for (int k = 0; k < 8; ++k) table[i] = table[i] >> 1 ^ (table[i] & 1 ? 0xEDB88320u : 0);
    }
    return table;
  }();
  crc = ~crc;
  for (const char c : data) crc = crc >> 8 ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xFF];
  return ~crc;
}

// What a value is as JSON, as the client writes it: JSON itself has no NaN.
std::string_view number_text(double value, std::array<char, 32>& to) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  const auto end = std::to_chars(to.data(), to.data() + to.size(), value).ptr;
  return {to.data(), static_cast<size_t>(end - to.data())};
}

// Texts, numbers and truth values of TOML, as this engine writes them, are JSON. What else there is
// becomes a text.
std::string json_of(const std::string& toml) {
  const bool quoted = toml.size() >= 2 && toml.front() == '"' && toml.back() == '"';
  if (quoted || toml == "true" || toml == "false") return toml;
  double number = 0;
  const char* const end = toml.data() + toml.size();
  const auto [at, problem] = std::from_chars(toml.data(), end, number);
  if (problem == std::errc() && at == end && std::isfinite(number)) return toml;
  return json_quote(toml);
}

// HistoryItem or SummaryItem{nested_key = 2, value_json = 16},
// ConfigItem{key = 1, value_json = 16}: as field 1 of the record that holds them.
void put_item(std::string& out, uint32_t key_number, std::string_view key, std::string_view json) {
  constexpr size_t kTagOf16 = 2;
  put_tag(out, 1, kBytes);
  put_varint(out, bytes_field_size(key.size()) + kTagOf16 + varint_size(json.size()) + json.size());
  put_bytes(out, key_number, key);
  put_bytes(out, 16, json);
}

void put_row_item(std::string& out, std::string_view key, double value) {
  std::array<char, 32> text;
  put_item(out, 2, key, number_text(value, text));
}

// A zero is what a reader takes for a field that is absent.
void put_number(std::string& out, uint32_t number, uint64_t value) {
  if (value != 0) put_varint_field(out, number, value);
}

// Timestamp{seconds = 1, nanos = 2}
std::string timestamp(double unix_seconds) {
  std::string out;
  const double whole = std::floor(unix_seconds);
  put_number(out, 1, static_cast<uint64_t>(whole));
  put_number(out, 2, static_cast<uint64_t>((unix_seconds - whole) * 1e9));
  return out;
}

// Of a folder that is not there yet: another process may have begun in the same second.
std::string fresh_folder(FileSystem& files, const std::string& parent, const std::string& id,
                         double unix_seconds) {
  for (int n = 0;; ++n) {
    std::string stamp = utc_stamp(unix_seconds + n);
    std::replace(stamp.begin(), stamp.end(), '-', '_');
    std::string folder = join_path(parent, std::string(kFolder) + stamp + "-" + id);
    if (!files.exists(folder)) return folder;
  }
}

}  // namespace

std::string wandb_id(FileSystem& files, const std::string& run_dir) {
  const std::string folder = join_path(run_dir, "wandb");
  if (files.is_folder(folder))
    for (const std::string& name : files.list(folder))
      if (starts_with(name, kFolder)) return name.substr(name.rfind('-') + 1);
  return "";
}

std::string new_wandb_id() {
  // Eight letters, as the client draws them.
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789";
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof bits, 0) != static_cast<ssize_t>(sizeof bits))
    bits = monotonic_ns() ^ static_cast<uint64_t>(getpid()) << 40;
  std::string id;
  for (int i = 0; i < 8; ++i, bits /= kLetters.size()) id += kLetters[bits % kLetters.size()];
  return id;
}

WandbWriter::WandbWriter(FileSystem& files, const std::string& run_dir, const WandbRun& run,
                         double unix_seconds)
    : start_(unix_seconds), last_write_(monotonic_ns()) {
  const std::string parent = join_path(run_dir, "wandb");
  if (!files.is_folder(parent)) files.make_folder(parent);
  const std::string folder = fresh_folder(files, parent, run.id, unix_seconds);
  files.make_folder(folder);
  path_ = join_path(folder, "run-" + run.id + ".wandb");
  file_ = files.open(path_, OpenMode::kCreate);
  buffer_.reserve(4 * kBlock);
  // Name, magic number and version of the format.
  buffer_ = std::string(":W&B\xE1\xBE\0", kHead);
  size_ = buffer_.size();
  // HeaderRecord{version_info = 1 {producer = 1, min_consumer = 2}}
  std::string version;
  put_bytes(version, 1, "plait");
  put_bytes(version, 2, "0.12.0");
  content_.clear();
  put_bytes(content_, 1, version);
  record(kHeader, content_);
  run_record(run);
  flush();
}

// RunRecord{run_id = 1, entity = 2, project = 3, config = 4 {update = 1 repeated}, run_group = 6,
//           display_name = 8, host = 13, start_time = 17, resume = 24}
void WandbWriter::run_record(const WandbRun& run) {
  std::string config;
  for (const auto& [name, value] : run.settings) put_item(config, 1, name, json_of(value));
  content_.clear();
  put_bytes(content_, 1, run.id);
  if (!run.entity.empty()) put_bytes(content_, 2, run.entity);
  if (!run.project.empty()) put_bytes(content_, 3, run.project);
  put_bytes(content_, 4, config);
  if (!run.group.empty()) put_bytes(content_, 6, run.group);
  if (!run.name.empty()) put_bytes(content_, 8, run.name);
  if (!run.host.empty()) put_bytes(content_, 13, run.host);
  put_bytes(content_, 17, timestamp(start_));
  put_number(content_, 24, run.continues ? 1 : 0);
  record(kRun, content_);
}

WandbWriter::~WandbWriter() {
  try {
    if (!failed_) {
      end_row();
      flush();
    }
    file_->close();
  } catch (const std::exception&) {
    // A destructor cannot report errors.
  }
}

// Record{num = 1, and one member}
void WandbWriter::record(uint32_t number, std::string_view content) {
  record_.clear();
  put_varint_field(record_, 1, static_cast<uint64_t>(++n_records_));
  put_bytes(record_, number, content);
  log(record_);
  if (buffer_.size() >= kBlock || monotonic_ns() - last_write_ >= kFlushNs) flush();
}

// Blocks of 32 KiB; a record that does not fit into the rest of one is in parts. Part:
// CRC-32 of (kind, data) u32 | length u16 | kind u8 | data
void WandbWriter::log(std::string_view data) {
  for (bool first = true, last = false; !last; first = false) {
    size_t left = kBlock - size_ % kBlock;
    if (left < kHead) {
      buffer_.append(left, '\0');
      size_ += left;
      left = kBlock;
    }
    const std::string_view part = data.substr(0, left - kHead);
    data.remove_prefix(part.size());
    last = data.empty();
    const uint8_t kind = first ? (last ? kFull : kFirst) : (last ? kLast : kMiddle);
    const auto letter = static_cast<char>(kind);
    put_fixed(buffer_, crc32(part, crc32({&letter, 1})));
    put_fixed(buffer_, static_cast<uint16_t>(part.size()));
    put_fixed(buffer_, kind);
    buffer_ += part;
    size_ += kHead + part.size();
  }
}

void WandbWriter::scalar(std::string_view name, int64_t step, double unix_seconds, double value) {
  if (step != step_) end_row();
  step_ = step;
  row_time_ = unix_seconds;
  put_row_item(row_, name, value);
}

// HistoryRecord{item = 1 repeated, step = 2 {num = 1}}; SummaryRecord{update = 1 repeated}: the
// newest value of each.
void WandbWriter::end_row() {
  if (row_.empty()) return;
  put_row_item(row_, "_step", static_cast<double>(step_));
  put_row_item(row_, "_timestamp", row_time_);
  put_row_item(row_, "_runtime", row_time_ - start_);
  record(kSummary, row_);
  content_.clear();
  put_number(content_, 1, static_cast<uint64_t>(step_));
  put_bytes(row_, 2, content_);
  record(kHistory, row_);
  row_.clear();
}

// RunExitRecord{exit_code = 1, runtime = 2}
void WandbWriter::end_of_run(int exit_code, double unix_seconds) {
  end_row();
  content_.clear();
  put_number(content_, 1, static_cast<uint64_t>(exit_code));
  put_number(content_, 2, static_cast<uint64_t>(std::max(unix_seconds - start_, 0.0)));
  record(kExit, content_);
  flush();
}

void WandbWriter::flush() {
  if (buffer_.empty()) return;
  // Cleared first: if the write were repeated after a failure, records could appear twice.
  struct Clear {
    std::string& text;
    ~Clear() { text.clear(); }
  } clear{buffer_};
  last_write_ = monotonic_ns();
  failed_ = true;  // what follows a gap cannot be read
  file_->write(buffer_);
  failed_ = false;
}

}  // namespace plait::observe
