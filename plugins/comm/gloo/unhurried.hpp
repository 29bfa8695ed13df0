// Gloo's thread looks again and again, without a pause, for a lock that another thread of this process holds while it sends. Where the
// two share a core, and waking it up interrupts the other, it looks in vain until its time is up, which is milliseconds. A thread of
// the batch class interrupts nobody: it runs when the others wait, or when its turn comes.
#pragma once

#include <sched.h>

namespace plait::comm_gloo {

// Threads that are started while it lives are of that class; they inherit it. Where the system or the host's own choice has another
// idea, nothing is changed.
class UnhurriedThreads {
 public:
  UnhurriedThreads() : changed_(sched_getscheduler(0) == SCHED_OTHER && set(SCHED_BATCH)) {}
  ~UnhurriedThreads() {
    if (changed_) set(SCHED_OTHER);
  }
  UnhurriedThreads(const UnhurriedThreads&) = delete;
  UnhurriedThreads& operator=(const UnhurriedThreads&) = delete;

 private:
  static bool set(int policy) {
    const sched_param none{};
    return sched_setscheduler(0, policy, &none) == 0;
  }
  const bool changed_;
};

}  // namespace plait::comm_gloo
