#include "bindings/cli/launch/report.hpp"

#include <fcntl.h>
#include <limits.h>
#include <plait/base.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

namespace plait::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kConnected = "{\"connected\":true}";
constexpr const char* kRunDir = "run_dir";

std::string dump(const Json& value) {
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// The launcher's pipe, or -1 if the descriptor is anything else by now.
int launcher_pipe() {
  const char* value = std::getenv("PLAIT_ERROR_FD");
  if (!value) return -1;
  const std::string_view text = value;
  int fd = -1;
  struct stat s {};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), fd);
  const bool sound = fault == std::errc() && end == text.data() + text.size() && fd >= 0 &&
                     fstat(fd, &s) == 0 && S_ISFIFO(s.st_mode);
  return sound ? fd : -1;
}

void write_file(const char* path, const FailureReport& report) {
  const Json all = {{"message",
                     {{"message", report.text},
                      // torchrun shows "py_callstack", where there is one, in place of the message.
                      {"extraInfo", {{"timestamp", std::to_string(time(nullptr))}}}}}};
  std::ofstream(path) << dump(all);
}

}  // namespace

bool FailureReport::secondary() const { return code == PLAIT_ERR_PEER; }

std::string to_line(const FailureReport& report) {
  constexpr size_t kMostText = 1500;  // fits into PIPE_BUF after escaping
  std::string line, text = report.text;
  do {
    if (text.size() > kMostText) text.resize(kMostText);
    line = dump({{"rank", report.rank},
                 {"code", report.code},
                 {"seconds", report.seconds},
                 {"whole", text.size() == report.text.size()},
                 {"shared", report.shared},
                 {"text", text}}) +
           "\n";
    text.resize(text.size() / 2);
  } while (line.size() > PIPE_BUF && !text.empty());  // a longer write is not atomic
  return line;
}

std::optional<FailureReport> from_line(std::string_view line) {
  const Json value = Json::parse(line, nullptr, false);
  if (!value.is_object()) return std::nullopt;
  try {
    return FailureReport{value.at("rank").get<int>(),       value.at("code").get<uint32_t>(),
                         value.at("seconds").get<double>(), value.at("text").get<std::string>(),
                         value.value("whole", false),       value.value("shared", false)};
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

const FailureReport* Reports::add(std::string_view line) {
  connected_ = connected_ || line == kConnected;
  auto report = from_line(line);
  if (!report) {
    const Json value = Json::parse(line, nullptr, false);
    if (value.is_object() && value.contains(kRunDir) && value[kRunDir].is_string())
      run_dir_ = value[kRunDir].get<std::string>();
    return nullptr;
  }
  const bool waits = report->secondary() || (report->shared && report->rank != 0) ||
                     std::any_of(failures_.begin(), failures_.end(), [&](const FailureReport& r) {
                       return r.code == report->code && r.text == report->text;
                     });
  failures_.push_back(std::move(*report));
  return failures_.back().whole && !waits ? &failures_.back() : nullptr;
}

std::vector<FailureReport> Reports::take_untold() {
  std::vector<FailureReport> all;
  for (; settled_ < failures_.size(); ++settled_) {
    const FailureReport& r = failures_[settled_];
    // Ranks that lost one which said nothing each tell what they saw.
    const bool told = std::any_of(failures_.begin(), failures_.end(), [&](const FailureReport& of) {
      return !of.secondary() && r.text.find(of.text.substr(0, of.text.find('\n'))) != r.text.npos;
    });
    if (r.secondary() && r.whole && !told) all.push_back(r);
  }
  return all;
}

const FailureReport* Reports::untold_shared() const {
  const FailureReport* untold = nullptr;
  for (const FailureReport& r : failures_) {
    if (r.shared && r.rank == 0) return nullptr;
    if (r.shared && r.whole && !untold) untold = &r;
  }
  return untold;
}

bool Reports::is_silent(size_t rank) const {
  return !connected_ &&
         std::none_of(failures_.begin(), failures_.end(),
                      [&](const FailureReport& r) { return r.rank == static_cast<int>(rank); });
}

bool started_by_plait() noexcept { return launcher_pipe() >= 0; }

void keep_report_pipe() noexcept {
  if (const int fd = launcher_pipe(); fd >= 0) fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void report_connected() noexcept {
  const int fd = launcher_pipe();
  if (fd < 0) return;
  const std::string line = std::string(kConnected) + "\n";
  if (write(fd, line.data(), line.size()) < 0) return;  // as in report_failure()
}

void report_run_dir(const std::string& run_dir) noexcept {
  try {
    const int fd = launcher_pipe();
    const std::string line = dump({{kRunDir, run_dir}}) + "\n";
    if (fd < 0 || line.size() > PIPE_BUF) return;
    if (write(fd, line.data(), line.size()) < 0) return;  // as in report_failure()
  } catch (const std::exception&) {                       // a restart then begins anew
  }
}

bool launcher_prints(const std::string& text) {
  // No report of that text has a longer line.
  const FailureReport longest{INT_MAX, UINT32_MAX, 1e9 / 3, text};
  const std::optional<FailureReport> read = from_line(to_line(longest));
  return launcher_pipe() >= 0 && read && read->whole;
}

void report_failure(const FailureReport& report) noexcept {
  try {
    if (const int fd = launcher_pipe(); fd >= 0) {
      const std::string line = to_line(report);
      if (write(fd, line.data(), line.size()) < 0) return;  // the launcher reads no longer
    } else if (const char* path = std::getenv("TORCHELASTIC_ERROR_FILE"); path && *path) {
      write_file(path, report);
    }
  } catch (const std::exception&) {  // the error itself is printed anyway
  }
}

}  // namespace plait::cli
