// A ring of slots between one producer thread and one consumer thread: access to the slots,
// and sleeping while there is nothing to do. Acquiring and committing a slot takes a few atomic
// operations; the lock is only for sleeping and waking.
//
// The producer waits when all slots are full. If there are many slots, it is woken when half of
// them are free again: a wake-up costs more than a small batch, so it should pay for several. If
// there are few, the batches are large, and it is woken for each free slot.
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

  // Consumer side.
  // Releases the slot acquired before and waits for the next one; -1 if none will come.
  int64_t acquire_filled();
  // Waits until the producer pauses; it stays paused until restart(). Only while there is a
  // producer.
  void pause();
  // Empties all slots; the producer restarts with slot 0. Only while it is paused or absent.
  void restart();
  // Makes the producer's next acquire_free() return -1.
  void stop();

  // Producer side.
  // Waits for a free slot and returns it; -1 if the ring was stopped.
  int64_t acquire_free();
  // Hands the acquired slot to the consumer.
  void commit_filled();
  // Ends production until restart(). The producer's writes so far are visible to a consumer that
  // gets -1.
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

  const uint64_t slots_, wake_at_;  // wake_at_: number of full slots, including the consumer's
  // Numbers of slots filled and released so far. A sleeper announces itself before it reads the
  // other side's count, and the other side changes its count before it looks for a sleeper; both
  // operations are sequentially consistent, so one of the two always sees the other.
  std::atomic<uint64_t> filled_{0}, freed_{0};
  std::atomic<bool> producer_waits_{false}, consumer_waits_{false};
  std::atomic<Command> command_{Command::fill};
  std::atomic<bool> closed_{false};
  bool held_ = false;  // accessed by the consumer only: it holds a slot

  std::mutex mutex_;
  std::condition_variable producer_, consumer_;
};

}  // namespace plait::data
