#include "plugins/comm/shm/futex_event.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <ctime>

namespace plait::comm_shm {

Clock::time_point after(double seconds) {
  const auto wait = std::chrono::duration<double>(std::clamp(seconds, 0.0, 3.2e7));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

// The futex system call reads the word itself. Not FUTEX_PRIVATE: the other ranks are other
// processes.
void notify(FutexEvent& event) noexcept {
  if (event.waiters == 0) return;
  event.sequence.fetch_add(1);
  syscall(SYS_futex, &event.sequence, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

bool more_than_cores(uint32_t ranks) {
  // Cores of the machine, not of this process: a rank bound to a part of the cores does not see the
  // cores of the others.
  const long cores = sysconf(_SC_NPROCESSORS_ONLN);
  return cores > 0 && ranks > static_cast<uint64_t>(cores);
}

namespace detail {

void futex_wait(Flag& word, uint32_t seen, std::chrono::nanoseconds most) noexcept {
  const auto left = std::max(most, std::chrono::nanoseconds(0)).count();
  const timespec limit{static_cast<time_t>(left / 1000000000),
                       static_cast<long>(left % 1000000000)};
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &limit, nullptr, 0);
}

void yield() noexcept { sched_yield(); }

}  // namespace detail
}  // namespace plait::comm_shm
