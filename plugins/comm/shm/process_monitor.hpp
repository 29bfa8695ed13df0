// Notices that the process of another rank has ended, without a word and however it ended.
#pragma once

#include <cstdint>
#include <vector>

#include "plugins/comm/shm/file.hpp"

namespace plait::comm_shm {

class ProcessMonitor {
 public:
  ProcessMonitor() = default;
  ~ProcessMonitor();
  ProcessMonitor(const ProcessMonitor&) = delete;
  ProcessMonitor& operator=(const ProcessMonitor&) = delete;

  // Says in the rank's line which process it is.
  static void record_process(RankState& line);
  // Watches the members; those it cannot watch (threads of this process, other process name spaces, old kernels) it takes for alive.
  void start(File& file, uint32_t rank, uint32_t size);
  bool ended(uint32_t rank) const;

 private:
  std::vector<int> fds_;  // (R) -1: not watched
};

}  // namespace plait::comm_shm
