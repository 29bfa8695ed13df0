// The lock of a run directory. In a folder named by the user it is the first file, which marks the
// other files as a run's.
#pragma once

#include <memory>
#include <string>

#include "engine/base/files.hpp"

namespace plait::observe {

// Holds a run directory for this process during its lifetime. Errors: PLAIT_ERR_STATE naming the
// host and process that hold it.
class RunLock {
 public:
  static constexpr char kName[] = "lock";

  RunLock(FileSystem& files, const std::string& run_folder);

  // Whether the folder contains a run's lock.
  static bool is_in(FileSystem& files, const std::string& folder);

 private:
  std::unique_ptr<FileLock> lock_;
};

}  // namespace plait::observe
