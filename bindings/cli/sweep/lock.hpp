// The lock of a sweep's folder: two sweeps in one folder would train each other's trials.
#pragma once

#include <string>

#include "bindings/cli/launch/fd.hpp"

namespace plait::cli {

// Holds the folder for this process during its lifetime. The file stays; the system releases the
// lock when the process ends, however it ends.
class SweepLock {
 public:
  // Throws CliError naming the host and process that hold it, or if the file cannot be made.
  explicit SweepLock(const std::string& folder);

 private:
  Fd file_;
};

}  // namespace plait::cli
