// How a rank that fails tells its launcher why: an error alone does not show who began.
//
// To plait run through an inherited pipe (PLAIT_ERROR_FD), a line of JSON each; to torchrun through the file that it asks for
// (TORCHELASTIC_ERROR_FILE), of which it shows the earliest.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace plait::cli {

struct FailureReport {
  int rank = 0;
  uint32_t code = 0;   // PLAIT_ERR_*, or 0
  double seconds = 0;  // by the monotonic clock, which all processes of a machine share
  std::string text;
  // The failure of another rank, of which this one only heard.
  bool secondary() const;
};

// Whether plait run is our launcher.
bool started_by_plait() noexcept;
// Keeps the pipe to ourselves: what a rank starts does not get it. Call before anything is started.
void keep_report_pipe() noexcept;

// To whoever wants to know. Never fails: there is an error to tell of already.
void report_failure(const FailureReport& report) noexcept;

std::string to_line(
    const FailureReport& report);  // short enough to be written at once; with a newline
std::optional<FailureReport> from_line(std::string_view line);

}  // namespace plait::cli
