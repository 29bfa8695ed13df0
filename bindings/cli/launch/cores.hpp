// Divides the cores of this process among ranks. A rank uses one compute thread per core.
#pragma once

#include <string>
#include <vector>

namespace plait::cli {

// The cores available to the calling thread, ordered so that cores of a package, and hardware
// threads of a core, are adjacent.
std::vector<int> allowed_cores();
// Part `which` of `parts`: adjacent cores, sizes that differ by at most one. With more parts than
// cores, each part is one core, assigned in turn.
std::vector<int> partition_cores(const std::vector<int>& cores, int which, int parts);
// Binds the calling thread and all threads it starts later. Failure costs speed, not correctness.
// Async-signal-safe.
void bind_to(const std::vector<int>& cores) noexcept;

// For a rank started by another launcher: binds it to its part of the cores, unless the launcher
// has bound it already, that is, its cores differ from its parent's. Returns whether it did. Call
// before other threads exist.
bool bind_local_rank(int local_rank, int local_size);

// "0-3,8".
std::string cores_text(const std::vector<int>& cores);

}  // namespace plait::cli
