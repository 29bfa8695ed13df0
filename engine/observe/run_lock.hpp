// Who works in a run directory. In a folder that somebody names it is the first file, and says that the others are a run's, too.
#pragma once

#include <memory>
#include <string>

#include "engine/base/files.hpp"

namespace plait::observe {

// Holds a run directory for this process while alive. Errors: PLAIT_ERR_STATE naming the host and process that hold it.
class RunLock {
 public:
  static constexpr char kName[] = "lock";

  RunLock(FileSystem& files, const std::string& run_folder);

  // Whether a run has had the folder's lock.
  static bool is_in(FileSystem& files, const std::string& folder);

 private:
  std::unique_ptr<FileLock> lock_;
};

}  // namespace plait::observe
