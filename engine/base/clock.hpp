// Clocks and time stamps.
#pragma once

#include <cstdint>
#include <string>

namespace plait {

uint64_t monotonic_ns();  // never decreases
double unix_seconds();    // wall clock
// "20260131-235959", UTC: for names of files and folders.
std::string utc_stamp(double unix_seconds);
// "2026-01-31T23:59:59.042Z": for lines of logs.
std::string utc_text(double unix_seconds);
// "0.13 ms", "1.25 s": for messages.
std::string duration_text(double seconds);

class Stopwatch {
 public:
  Stopwatch() : start_(monotonic_ns()) {}
  double seconds() const { return static_cast<double>(monotonic_ns() - start_) * 1e-9; }
  void restart() { start_ = monotonic_ns(); }

 private:
  uint64_t start_;
};

}  // namespace plait
