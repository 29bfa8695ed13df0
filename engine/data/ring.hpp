// The hand-over of slots between one thread that fills them and one that takes them: who may touch which slot, and sleeping
// when there is nothing to do. Taking and filling are a few atomic operations; the lock is for falling asleep and waking.
//
// The producer waits when all slots are full. Where there are many, it is woken when half of them are free again: a wake-up costs
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

  // The consumer's side.
  // Gives back the slot taken before and waits for the next one; -1 when none will come.
  int64_t acquire_filled();
  // Returns when the producer rests, which it then does until restart(). Only while there is a producer.
  void pause();
  // All slots are empty again, and the producer begins with slot 0. Only while it rests or there is none.
  void restart();
  // The producer's next acquire_free() says that it is over.
  void stop();

  // The producer's side.
  // The slot to fill next, waiting for one; -1 when it is over.
  int64_t acquire_free();
  // That slot is full.
  void commit_filled();
  // Nothing more comes until restart(). What the producer wrote before is visible to a consumer that gets -1.
  void close();

 private:
  enum class Command { fill, pause, stop };
  bool may_fill() const {
    return command_.load(std::memory_order_acquire) == Command::fill && !closed_ &&
           filled_.load(std::memory_order_relaxed) - freed_.load(std::memory_order_acquire) <
               slots_;
  }
  bool wait_for_free();
  void wake_producer();

  const uint64_t slots_, wake_at_;  // wake_at_: full slots, the consumer's among them
  // Slots ever filled and ever given back. A sleeper announces itself before it looks at the other's count, and the other
  // changes its count before it looks for a sleeper; both in one order for all threads, so one of them sees the other.
  std::atomic<uint64_t> filled_{0}, freed_{0};
  std::atomic<bool> producer_waits_{false}, consumer_waits_{false};
  std::atomic<Command> command_{Command::fill};
  std::atomic<bool> closed_{false};
  bool held_ = false;  // the consumer's: it has a slot

  std::mutex mutex_;
  std::condition_variable producer_, consumer_;
};

}  // namespace plait::data
