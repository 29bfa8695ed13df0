// Threads that the system does not give on request, in every library of the process.
#pragma once

#include <cstdint>

namespace plait::test {

// The n-th thread that is started from now on, by whichever thread, fails with EAGAIN; n counts
// from 1, and 0 stops that.
void fail_thread(int64_t n) noexcept;
// Whether it has come.
bool thread_has_failed() noexcept;

}  // namespace plait::test
