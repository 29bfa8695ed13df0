// Whether the pool of OpenMP pays, beside other processes that keep the cores busy.
//
// The threads of a region wait for each other, so a region takes as long as the thread that gets
// the least of its core. Beside a busy process small regions become many times slower than on one
// thread, which the scheduler leaves a core to itself. So a thread that was not told how many
// threads to use measures now and then how long its pool waited for cores; if that is much, it
// computes alone for a while and keeps whichever is faster. Results do not depend on it
// (parallel.hpp).
#pragma once

#include <cstdint>

namespace plait::cpu {

// The decision, from one measurement after another. Pure.
class BackOff {
 public:
  struct Window {
    double seconds = 0;   // it took
    int64_t regions = 0;  // parallel regions in it, computed alone or not
    double waited = 0;    // seconds in which threads could run but had no core, of all together
  };
  // Of a run of regions that were all computed as alone() said.
  void end_window(const Window& window);
  bool alone() const { return state_ == State::kTryAlone || state_ == State::kAlone; }

 private:
  // kTryPool: on the pool again, to see whether the cores are still busy.
  enum class State { kPool, kTryAlone, kAlone, kTryPool };
  void hold(State state);

  State state_ = State::kPool;
  double other_rate_ = 0;  // regions per second, as measured last the other way
  double remaining_ = 0;   // seconds before the next try
  double hold_ = 0;        // seconds between tries; doubled by each that changes nothing
};

// Lets on_pool() of the calling thread measure, or not. Cheap where nothing changes. [compute]
void back_off_if_busy(bool wanted) noexcept;

}  // namespace plait::cpu
