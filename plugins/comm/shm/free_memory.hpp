// How much memory this process may still get: of the machine, and of the control groups it is in.
#pragma once

#include <cstdint>
#include <string>

namespace plait::comm_shm {

struct FreeMemory {
  uint64_t bytes = UINT64_MAX;    // UINT64_MAX: not known
  bool of_control_group = false;  // a limit of a control group, as containers have, decides
};

// What so many ranks of this machine may get together; what a rank allocates is charged to its own
// control group. In a control group of k processes are at most k of the ranks (as processes): it
// has to hold k shares of the whole, and the others are assumed to be in groups like this one.
// What the system can drop counts as free: pages of files, and kernel memory that it gives back.
// root: the folder with proc/ and sys/.
FreeMemory free_memory(uint32_t ranks = 1, const std::string& root = "");

}  // namespace plait::comm_shm
