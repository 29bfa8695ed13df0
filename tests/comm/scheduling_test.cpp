// How the system schedules the threads of a process that has a group.
#include <doctest/doctest.h>
#include <sched.h>

#include "tests/comm/ranks.hpp"
#include "tests/support/own_threads.hpp"

namespace {

using namespace comm_test;

// Threads of this process that preempt no others when they wake up.
int64_t batch_threads() {
  int64_t n = 0;
  for (const int thread : plait::test::own_threads())
    n += sched_getscheduler(thread) == SCHED_BATCH;
  return n;
}

}  // namespace

TEST_SUITE("behaviour") {
  TEST_CASE("Gloo's own thread interrupts no other, and the host's are as they were") {
    for (const auto& plugin : plugins()) {
      REQUIRE(batch_threads() == 0);
      const auto outcomes = run_group(*plugin, 2, [&](Comm& comm) {
        require(sched_getscheduler(0) == SCHED_OTHER, "the caller is in another class");
        Call barrier(comm, desc(PLAIT_COMM_BARRIER, PLAIT_F32, 0, nullptr, nullptr));
        if (plugin->name() == "gloo")
          require(batch_threads() == 2, std::to_string(batch_threads()) + " threads, expected 2");
        barrier.run();  // until then no rank has closed its endpoint
      });
      CHECK_NOTHROW(expect_all_ok(outcomes));
    }
  }
}
