// OpenMP ends the process where a thread of its pool cannot be started. A host must get an error.
#pragma once

namespace plait::cpu {

// Starts as many threads beside the calling one as a pool of `threads` has, all at a time, and ends
// them: a limit of processes or memory shows here, before OpenMP meets it.
// Throws PLAIT_ERR_IO that names the limit. [owner]
void check_thread_limit(int threads);

}  // namespace plait::cpu
