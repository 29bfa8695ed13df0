// Notices that the process of another rank has ended, even if it ended without a message.
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/comm/shm/file.hpp"

namespace plait::comm_shm {

// Two processes with the same one know each other by the same process ids; 0 where it is unknown.
uint64_t pid_namespace();

class ProcessMonitor {
 public:
  ProcessMonitor() = default;
  ~ProcessMonitor();
  ProcessMonitor(const ProcessMonitor&) = delete;
  ProcessMonitor& operator=(const ProcessMonitor&) = delete;

  // Records in the rank's state which process it is.
  static void record_process(RankState& state);
  // Watches the members. A member that cannot be watched (thread of this process, other PID name
  // space, old kernel) counts as alive.
  void start(File& file, uint32_t rank, uint32_t size);
  bool ended(uint32_t rank) const;

 private:
  std::vector<int> fds_;  // (R) -1: not watched
};

}  // namespace plait::comm_shm
