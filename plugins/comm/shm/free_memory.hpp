// How much memory this process may still get: of the machine, and of the control groups it is in.
#pragma once

#include <cstdint>
#include <string>

namespace plait::comm_shm {

struct FreeMemory {
  uint64_t bytes = UINT64_MAX;    // UINT64_MAX: not known
  bool of_control_group = false;  // a limit of a control group, as containers have, decides
};

// root: the folder with proc/ and sys/. What the system can drop counts as free:
// pages of files, and kernel memory that it gives back.
FreeMemory free_memory(const std::string& root = "");

}  // namespace plait::comm_shm
