// The cores that the CPU device computes on.
//
// Kernels are parallelised with OpenMP, whose pool belongs to the calling thread. The threads of
// the pool can be bound to cores, one each, because a virtual machine may otherwise run two busy
// threads on one core. The calling thread is part of its pool; it belongs to the host, so it is
// bound only where the host asks, and gets its former cores back with leave(). Several devices may
// bind one thread, and leave in any order: the last one restores.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace plait::cpu {

// Cores that any thread of this process may run on, in ascending order; never empty. All threads
// are considered, because another device may have bound the calling one.
std::vector<int> allowed_cores();

// What is bound.
enum class Bind { kNothing, kWorkers, kAll };

class Binding {
 public:
  // `first_core`: index of the caller's core among the allowed ones; worker i gets the i-th after
  // it. Below 0: bind only if `threads` takes all allowed cores, from the first.
  Binding(int threads, int64_t first_core, Bind bind);
  ~Binding() { leave(); }
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  // Binds the pool of the calling thread, once. [compute]
  void enter() noexcept {
    if (active_ && bound_[0].thread.load(std::memory_order_relaxed) != pthread_self()) enter_slow();
  }
  // Gives the calling threads their former cores back, and the caller's workers, too, if it is one
  // of them. A later enter() binds again. No work may be running. [owner]
  void leave() noexcept;
  const char* summary() const { return active_ ? "bound to cores" : "not bound"; }

 private:
  struct Bound {
    std::atomic<pthread_t> thread{};
    pid_t id = 0;  // 0: not bound itself
  };
  void enter_slow() noexcept;

  std::vector<int> cores_;  // of thread i of the pool
  bool active_ = false, caller_ = false;
  std::array<Bound, 16> bound_;  // threads that run programs; further ones are not bound
  std::atomic<size_t> count_{0};
};

}  // namespace plait::cpu
