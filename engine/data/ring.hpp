// The hand-over of slots between one thread that fills them and one that takes them: who may touch which slot, and sleeping
// when there is nothing to do. Taking and filling are a few atomic operations; the lock is for falling asleep and waking.
//
// The filler rests when all slots are full. Where there are many, it is woken when half of them are free again: a wake-up costs
// more than a small batch, so it should pay for several. Where there are few, the batches are large: it is woken for each.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace plait::data {

class Ring {
 public:
  // `slots`: 2 or more.
  explicit Ring(uint64_t slots) : slots_(slots), wake_at_(slots <= 4 ? slots - 1 : slots / 2) {}

  // The taker's side.
  // Gives back the slot taken before and waits for the next one; -1 when none will come.
  int64_t take();
  // Returns when the filler rests, which it then does until restart(). Only while there is a filler.
  void pause();
  // All slots are empty again, and the filler begins with slot 0. Only while it rests or there is none.
  void restart();
  // The filler's next room() says that it is over.
  void stop();

  // The filler's side.
  // The slot to fill next, waiting for one; -1 when it is over.
  int64_t room();
  // That slot is full.
  void filled();
  // Nothing more comes until restart(). What the filler wrote before is visible to a taker that gets -1.
  void halt();

 private:
  enum class Order { fill, pause, stop };
  bool may_fill() const {
    return order_.load(std::memory_order_acquire) == Order::fill && !halted_ &&
           filled_.load(std::memory_order_relaxed) - freed_.load(std::memory_order_acquire) <
               slots_;
  }
  bool rest();
  void wake_filler();

  const uint64_t slots_, wake_at_;  // wake_at_: full slots, the taker's among them
  // Slots ever filled and ever given back. A sleeper announces itself before it looks at the other's count, and the other
  // changes its count before it looks for a sleeper; both in one order for all threads, so one of them sees the other.
  std::atomic<uint64_t> filled_{0}, freed_{0};
  std::atomic<bool> filler_rests_{false}, taker_waits_{false};
  std::atomic<Order> order_{Order::fill};
  std::atomic<bool> halted_{false};
  bool held_ = false;  // the taker's: it has a slot

  std::mutex mutex_;
  std::condition_variable filler_, taker_;
};

}  // namespace plait::data
