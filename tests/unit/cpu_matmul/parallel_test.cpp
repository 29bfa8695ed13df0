// The helpers that run kernels on the OpenMP pool.
#include "plugins/devices/cpu/parallel.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <stdexcept>
#include <vector>

namespace {

using plait::cpu::in_parallel;
using plait::cpu::on_pool;

TEST_CASE("ranges cover all elements once, on as many threads as there are") {
  for (const int threads : {1, 2, 3, 8})
    for (const int64_t n : {0, 1, 2, 7, 1000}) {
      CAPTURE(threads);
      CAPTURE(n);
      std::vector<std::atomic<int>> seen(static_cast<size_t>(n));
      in_parallel(threads, n, [&](int64_t first, int64_t last) {
        for (int64_t i = first; i < last; ++i) ++seen[static_cast<size_t>(i)];
      });
      for (const auto& times : seen) CHECK(times == 1);
    }
}

TEST_CASE("a region of fewer threads keeps the others of the pool") {
  const auto workers = [](int threads) {
    std::vector<pid_t> ids(static_cast<size_t>(threads));
    on_pool(threads, [&](int thread, int all) {
      CHECK(all <= threads);
      ids[static_cast<size_t>(thread)] = gettid();
    });
    return ids;
  };
  const std::vector<pid_t> before = workers(4), fewer = workers(2);
  CHECK(fewer == std::vector<pid_t>(before.begin(), before.begin() + 2));
  CHECK(workers(1).front() == before.front());
  CHECK(workers(4) == before);
}

TEST_CASE("an exception on the pool is one of the caller, when all threads have returned") {
  for (const int threads : {1, 2, 4}) {
    CAPTURE(threads);
    for (int thrower = 0; thrower < threads; ++thrower) {
      std::atomic<int> begun{0};
      int granted = 0;
      const auto work = [&](int thread, int all) {
        ++begun;
        if (thread == 0) granted = all;
        if (thread == thrower % all) throw std::runtime_error("thread");
      };
      CHECK_THROWS_WITH_AS(on_pool(threads, work), "thread", std::runtime_error);
      CHECK(begun == granted);
    }
    CHECK_THROWS_AS(in_parallel(threads, 100, [](int64_t, int64_t) { throw std::bad_alloc(); }),
                    std::bad_alloc);
    // The pool works afterwards.
    std::atomic<int64_t> sum{0};
    in_parallel(threads, 100, [&](int64_t first, int64_t last) { sum += last - first; });
    CHECK(sum == 100);
  }
}

}  // namespace
