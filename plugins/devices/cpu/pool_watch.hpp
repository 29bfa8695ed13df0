// Whether the pool of the calling thread is worth it at the moment. Where other processes hold
// cores, the threads of a parallel region wait for the one that has none, for milliseconds where the
// region has microseconds of work; one thread alone is then faster. The system counts how long each
// thread has waited for a core, so the pool can pause while they do.
#pragma once

#include <array>
#include <cstdint>

namespace plait::cpu {

using Nanoseconds = int64_t;

// When a pool pauses, and how long: longer each time that a pause was not enough.
class PoolPauses {
 public:
  // together: the share of the last while in which all threads of the pool had their cores. Returns
  // how long the pool pauses, 0: not at all.
  Nanoseconds judge(int threads, double together) noexcept;

  static constexpr Nanoseconds kFirst = 100'000'000, kLongest = 1'600'000'000;

 private:
  Nanoseconds last_ = 0;  // halved each time that no pause was needed
};

// The pool of one thread. Only that thread calls it.
class PoolWatch {
 public:
  ~PoolWatch() { close(); }
  PoolWatch(const PoolWatch&) = delete;
  PoolWatch& operator=(const PoolWatch&) = delete;

  // That of the calling thread.
  static PoolWatch& own() noexcept;

  // Work of a device with so many threads is about to run. While the pool pauses, parallel regions
  // of the calling thread have one thread, and that thread need not stay on the core to which a
  // device has bound it. [compute]
  void check(int threads) noexcept;
  // Ends a pause, and forgets the pool. No work may be running.
  void leave() noexcept;

 private:
  PoolWatch() = default;
  void open(int threads) noexcept;
  void close() noexcept;
  void pause() noexcept;
  void resume() noexcept;
  // How long each thread has waited for a core so far, into delays_. False: it is not known.
  bool read() noexcept;
  double together(Nanoseconds now) noexcept;

  static constexpr int kMost = 256;  // threads that are watched
  std::array<int, kMost> files_{};   // what the system says about each thread
  std::array<Nanoseconds, kMost> delays_{};
  int open_ = 0, threads_ = 0;  // of files_; of the pool
  Nanoseconds read_at_ = 0, next_ = 0;
  PoolPauses pauses_for_;
  bool pauses_ = false;
  int levels_ = 1;  // of nested regions, as before the pause
};

}  // namespace plait::cpu
