// Which cores the CPU device computes on.
//
// Kernels are parallel by OpenMP, whose pool belongs to the thread that calls it. The threads of the pool are bound to cores,
// one each, because a virtual machine may otherwise leave two busy threads on one core. The calling thread is part of its pool
// and is bound with it (unless `caller` is false); it gets its old cores back when the device closes.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

namespace plait::cpu {

// Cores that any thread of this process may run on, in ascending order; never empty. Of all threads, because the calling one
// may be bound by another device.
std::vector<int> allowed_cores();

class Binding {
 public:
  // `first_core`: index among the allowed cores of the caller's place; worker i gets the i-th after it. Below 0: bind only
  // when `threads` takes all allowed cores, from the first.
  Binding(int threads, int64_t first_core, bool workers, bool caller);
  ~Binding();  // callers get their cores back
  Binding(const Binding&) = delete;
  Binding& operator=(const Binding&) = delete;

  // Binds the pool of the calling thread, once. [compute]
  void enter() noexcept {
    if (active_ && bound_[0].thread.load(std::memory_order_relaxed) != pthread_self()) enter_slow();
  }
  const char* summary() const { return active_ ? "bound to cores" : "not bound"; }

 private:
  struct Bound {
    std::atomic<pthread_t> thread{};
    pid_t id = 0;
    cpu_set_t before{};
  };
  void enter_slow() noexcept;

  std::vector<int> cores_;  // of thread i of the pool
  bool active_ = false, caller_ = false;
  std::array<Bound, 16> bound_;  // threads that run programs; further ones are left alone
  std::atomic<size_t> count_{0};
};

}  // namespace plait::cpu
