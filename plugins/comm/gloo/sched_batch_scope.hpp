// Gloo's I/O thread spins on a lock held by senders. If both share a core, waking it preempts the
// sender and it spins for a whole time slice. SCHED_BATCH threads do not preempt others.
#pragma once

#include <sched.h>

namespace plait::comm_gloo {

// Threads that are started while it lives inherit SCHED_BATCH. Changes nothing where the system
// refuses it or the host has chosen another class.
class SchedBatchScope {
 public:
  SchedBatchScope() : changed_(sched_getscheduler(0) == SCHED_OTHER && set(SCHED_BATCH)) {}
  ~SchedBatchScope() {
    if (changed_) set(SCHED_OTHER);
  }
  SchedBatchScope(const SchedBatchScope&) = delete;
  SchedBatchScope& operator=(const SchedBatchScope&) = delete;

 private:
  static bool set(int policy) {
    const sched_param none{};
    return sched_setscheduler(0, policy, &none) == 0;
  }
  const bool changed_;
};

}  // namespace plait::comm_gloo
