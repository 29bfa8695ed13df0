// Clocks and time stamps.
#pragma once

#include <cstdint>
#include <string>

namespace plait {

uint64_t monotonic_ns();  // never decreases
double unix_seconds();    // wall clock
// "20260131-235959", UTC: for names of files and folders.
std::string utc_stamp(double unix_seconds);

class Stopwatch {
 public:
  Stopwatch() : start_(monotonic_ns()) {}
  double seconds() const { return static_cast<double>(monotonic_ns() - start_) * 1e-9; }
  void restart() { start_ = monotonic_ns(); }

 private:
  uint64_t start_;
};

}  // namespace plait
