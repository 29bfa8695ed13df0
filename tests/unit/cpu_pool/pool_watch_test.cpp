// When the pool of a thread pauses because its threads have no cores.
#include "plugins/devices/cpu/pool_watch.hpp"

#include <doctest/doctest.h>
#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

using plait::cpu::Nanoseconds;
using plait::cpu::PoolPauses;
using plait::cpu::PoolWatch;

namespace {

// Runs a region of two threads, each at work for 100 us; returns how many it had.
int region() {
  int threads = 0;
#pragma omp parallel num_threads(2)
  {
    if (omp_get_thread_num() == 0) threads = omp_get_num_threads();
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(100);
    while (std::chrono::steady_clock::now() < end) {
    }
  }
  return threads;
}

void move_pool(const cpu_set_t& cores) {
#pragma omp parallel num_threads(2)
  sched_setaffinity(0, sizeof cores, &cores);
}

}  // namespace

TEST_CASE("a pool pauses when one thread alone would be faster") {
  PoolPauses pauses;
  CHECK(pauses.judge(2, 1) == 0);
  CHECK(pauses.judge(2, 0.7) == 0);
  CHECK(pauses.judge(16, 0.5) == 0);  // one of many waits half of the time
  CHECK(pauses.judge(2, 0.6) == PoolPauses::kFirst);
  CHECK(PoolPauses().judge(16, 0.08) == PoolPauses::kFirst);
}

TEST_CASE("pauses get longer while they are needed, and short again") {
  PoolPauses pauses;
  Nanoseconds expected = PoolPauses::kFirst;
  for (int i = 0; i < 8; ++i) {
    CHECK(pauses.judge(2, 0) == expected);
    expected = std::min(2 * expected, PoolPauses::kLongest);
  }
  CHECK(expected == PoolPauses::kLongest);
  for (int i = 0; i < 5; ++i) CHECK(pauses.judge(2, 1) == 0);
  CHECK(pauses.judge(2, 0) == PoolPauses::kFirst);
}

TEST_CASE("two threads on one core: regions get one thread, and two when the device is left") {
  if (!std::filesystem::exists("/proc/thread-self/schedstat")) return;  // nothing is known
  PoolWatch& watch = PoolWatch::own();
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  for (int i = 0; CPU_COUNT(&one) == 0; ++i)
    if (CPU_ISSET(i, &before)) CPU_SET(i, &one);
  if (region() < 2) return;  // OpenMP may have a limit
  move_pool(one);
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  int threads = 2;
  while (threads == 2 && std::chrono::steady_clock::now() < give_up) {
    watch.check(2);
    threads = region();
  }
  CHECK(threads == 1);
  watch.leave();
  CHECK(region() == 2);
  move_pool(before);
}
