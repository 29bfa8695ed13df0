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
#include <vector>

namespace plait::cli {

struct FailureReport {
  int rank = 0;
  uint32_t code = 0;   // PLAIT_ERR_*, or 0
  double seconds = 0;  // monotonic clock, common to all processes of a machine
  std::string text;
  bool whole = true;  // the text was not cut
  // All ranks fail alike, and rank 0 tells it, with what to do behind the text of the others.
  bool shared = false;
  // True if this rank only reports the failure of another rank.
  bool secondary() const;
};

// Whether plait run launched this process.
bool started_by_plait() noexcept;
// Keeps the pipe from child processes of the rank. Call before starting any.
void keep_report_pipe() noexcept;

// Reports to the launcher, if there is one. Never fails: the original error matters more.
void report_failure(const FailureReport& report) noexcept;

// Whether plait run prints the text of a failure that it reads in a report, once for ranks that
// tell the same. The rank itself prints what another launcher reads, and what is too long.
bool launcher_prints(const std::string& text);

// Tells the launcher that all ranks are connected: from then on they notice by themselves when one
// is lost.
void report_connected() noexcept;
// Tells it where the files of the run are.
void report_run_dir(const std::string& run_dir) noexcept;

// Short enough for an atomic write; ends with a newline.
std::string to_line(const FailureReport& report);
std::optional<FailureReport> from_line(std::string_view line);

// What the launcher has read.
class Reports {
 public:
  // The failure that is to be printed now, or NULL: the line reports none, its rank prints it, or
  // another rank has failed alike; one of another rank waits for that rank's own words, a shared
  // one for the words of rank 0. Valid until the next call.
  const FailureReport* add(std::string_view line);
  // Those that waited and that no rank has told in its own words; each is returned once.
  std::vector<FailureReport> take_untold();
  // A shared one when all ranks have ended and rank 0 has not told it; or NULL.
  const FailureReport* untold_shared() const;
  const std::vector<FailureReport>& failures() const { return failures_; }
  // Whether the other ranks cannot know that this one has ended: they were not connected yet, and
  // it has not reported a failure, which it tells the others before it ends.
  bool is_silent(size_t rank) const;
  const std::string& run_dir() const { return run_dir_; }  // "": not told

 private:
  std::vector<FailureReport> failures_;
  size_t settled_ = 0;  // failures before this index wait no longer
  bool connected_ = false;
  std::string run_dir_;
};

}  // namespace plait::cli
