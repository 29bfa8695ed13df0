// How a failing rank reports its error to the launcher, which then knows the rank that failed
// first.
//
// plait run reads a line of JSON per report from an inherited pipe (PLAIT_ERROR_FD); torchrun reads
// the file named by TORCHELASTIC_ERROR_FILE and shows the earliest one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plait::cli {

struct FailureReport {
  int rank = 0;
  uint32_t code = 0;   // PLAIT_ERR_*, or 0
  double seconds = 0;  // monotonic clock, common to all processes of a machine
  std::string text;
  // True if this rank only reports the failure of another rank.
  bool secondary() const;
};

// Whether plait run launched this process.
bool started_by_plait() noexcept;
// Keeps the pipe from child processes of the rank. Call before starting any.
void keep_report_pipe() noexcept;

// Reports to the launcher, if there is one. Never fails: the original error matters more.
void report_failure(const FailureReport& report) noexcept;

// Short enough for an atomic write; ends with a newline.
std::string to_line(const FailureReport& report);
std::optional<FailureReport> from_line(std::string_view line);

}  // namespace plait::cli
