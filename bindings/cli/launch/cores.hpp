// Dividing the cores of this process among ranks. A rank computes with as many threads as it may use cores.
#pragma once

#include <string>
#include <vector>

namespace plait::cli {

// Cores the calling thread may use, ordered so that those of a package, and the threads of a core, are neighbours.
std::vector<int> allowed_cores();
// The part of `which` among `parts`: neighbours, sizes that differ by one at most. With more parts than cores one core each, in turn.
std::vector<int> partition_cores(const std::vector<int>& cores, int which, int parts);
// Binds the calling thread, and all it starts later. A refusal costs speed, not results. Async-signal-safe but for the set's size.
void bind_to(const std::vector<int>& cores) noexcept;

// For a rank that somebody else started: takes its share, unless its launcher has bound it already; then our cores are others than
// those of our parent. Returns whether it did. Call before there are other threads.
bool bind_local_rank(int local_rank, int local_size);

// "0-3,8".
std::string cores_text(const std::vector<int>& cores);

}  // namespace plait::cli
