// Splits work over the OpenMP pool of the calling thread. The number of threads of a kernel is
// fixed when it is prepared; results never depend on it, since the order of every sum follows from
// the shape alone.
#pragma once

#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>

namespace plait::cpu {

// Approximate cost of starting and joining a thread.
constexpr double kNanosecondsPerThread = 8000;

// At most `threads`, so that each thread gets enough of the work (`nanoseconds` on one core) to
// repay its start, and no more than there are `parts`.
inline int choose_num_threads(uint32_t threads, double nanoseconds, int64_t parts) {
  const double worthwhile = std::clamp(nanoseconds / kNanosecondsPerThread, 1.0, 1024.0);
  return static_cast<int>(
      std::max<int64_t>(1, std::min({int64_t{threads}, static_cast<int64_t>(worthwhile), parts})));
}

// How many threads the next parallel region of the calling thread must have that needs n. The pool
// never gets smaller: OpenMP ends the threads that a region does not need, and those that a later
// one starts in their place take as long as a small kernel and are bound to the caller's core.
inline int grow_pool(int n) noexcept {
  thread_local int size = 0;
  return size = std::max(size, n);
}

// Whether the calling thread uses its pool (back_off.hpp decides).
struct PoolUse {
  static constexpr uint32_t kPeriod = 16;
  void (*look)() noexcept = nullptr;  // called behind every kPeriod regions; NULL: the pool is used
  uint32_t left = kPeriod;            // regions before the next call
  bool alone = false;                 // regions have one thread

  bool ask() noexcept {
    if (!look) return true;
    if (--left == 0) {
      left = kPeriod;
      look();
    }
    return !alone;
  }
};
inline PoolUse& pool_use() noexcept {
  thread_local PoolUse use;
  return use;
}

// Calls f(thread, all) on `num_threads` threads; `all` of them, the pool may grant fewer, and
// beside busy processes it may be one. An exception that leaves a parallel region ends the process,
// so the first one is rethrown here. One thread is the calling one: a region of its own would make
// a new team, on the heap.
template <class F>
void on_pool(int num_threads, const F& f) {
  if (num_threads <= 1 || !pool_use().ask()) {
    f(0, 1);
    return;
  }
  std::exception_ptr error;
  std::atomic_flag failed;
#pragma omp parallel num_threads(grow_pool(num_threads))
  {
    const int thread = omp_get_thread_num(), all = std::min(num_threads, omp_get_num_threads());
    try {
      if (thread < all) f(thread, all);
    } catch (...) {
      if (!failed.test_and_set()) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

// Calls f(first, last) on `num_threads` threads, for equal ranges of [0, n). Rethrows likewise.
template <class F>
void in_parallel(int num_threads, int64_t n, const F& f) {
  if (num_threads <= 1) return f(int64_t{0}, n);
  on_pool(num_threads, [n, &f](int64_t t, int64_t all) {
    const int64_t first = n / all * t + std::min(t, n % all), size = n / all + (t < n % all);
    f(first, first + size);
  });
}

}  // namespace plait::cpu
