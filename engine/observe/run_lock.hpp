// The lock of a run directory. In a folder named by the user it is the first file, which marks the
// other files as a run's.
#pragma once

#include <memory>
#include <string>

#include "engine/base/files.hpp"

namespace plait::observe {

// Holds a run directory for this process during its lifetime. advice: what to do where another one
// has it. Waits up to a second for the lock, or for the name of who has it. Errors: PLAIT_ERR_STATE
// naming that host and process, where the file has them.
class RunLock {
 public:
  static constexpr char kName[] = "lock";

  RunLock(FileSystem& files, const std::string& run_folder,
          const char* advice = "stop that run, or start this one in a directory of its own");

  // Whether this process still holds it: a network file system may have given it to another one
  // while this process was stopped. Errors: PLAIT_ERR_STATE naming that one.
  void check() const;

  // Whether the folder contains a run's lock.
  static bool is_in(FileSystem& files, const std::string& folder);

 private:
  FileSystem& files_;
  std::string folder_;
  std::unique_ptr<FileLock> lock_;
  std::string content_;  // of the file
};

}  // namespace plait::observe
