// Which cores the CPU device computes on.
//
// Kernels are parallel by OpenMP, whose pool belongs to the thread that calls it. Workers of the pool are bound to cores, one
// each, because a virtual machine may otherwise leave two busy threads on one core. The calling thread is the host's: it is
// left alone unless asked for, since threads it starts later would inherit its core.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include <pthread.h>

namespace plait::cpu {

// Cores the calling thread may run on, in ascending order; never empty.
std::vector<int> allowed_cores();

class Binding {
 public:
  // `first_core`: index among the allowed cores of the caller's place; worker i gets the i-th after it. Below 0: bind only
  // when `threads` takes all allowed cores, from the first. Nothing is ever unbound.
  Binding(int threads, int64_t first_core, bool workers, bool caller);

  // Binds the pool of the calling thread, once. [compute]
  void enter() noexcept {
    if (active_ && seen_[0].load(std::memory_order_relaxed) != pthread_self()) enter_slow();
  }
  // For the device summary.
  const char* summary() const { return active_ ? "bound" : "not bound"; }

 private:
  void enter_slow() noexcept;

  std::vector<int> cores_;  // of thread i of the pool
  bool active_ = false, caller_ = false;
  // Threads whose pools are bound already; a few, since few threads run programs.
  std::atomic<pthread_t> seen_[4] = {};
};

}  // namespace plait::cpu
