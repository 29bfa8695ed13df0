#include "engine/data/ring.hpp"

namespace plait::data {

int64_t Ring::acquire_filled() {
  uint64_t freed = freed_.load(std::memory_order_relaxed);
  if (held_) {
    held_ = false;
    freed_.store(++freed, std::memory_order_seq_cst);
    const uint64_t full = filled_.load(std::memory_order_seq_cst) - freed;
    if (full <= wake_at_ && producer_waits_.load(std::memory_order_seq_cst)) wake_producer();
  }
  if (filled_.load(std::memory_order_acquire) == freed) {
    std::unique_lock<std::mutex> lock(mutex_);
    consumer_waits_.store(true, std::memory_order_seq_cst);
    consumer_.wait(lock,
                   [&] { return filled_.load(std::memory_order_seq_cst) != freed || closed_; });
    consumer_waits_.store(false, std::memory_order_relaxed);
    if (filled_.load(std::memory_order_acquire) == freed) return -1;
  }
  held_ = true;
  return static_cast<int64_t>(freed % slots_);
}

void Ring::wake_producer() {
  // the sleeper now either waits or will check the condition first
  { const std::lock_guard<std::mutex> lock(mutex_); }
  producer_.notify_one();
}

void Ring::pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  command_ = Command::pause;
  consumer_.wait(lock, [&] { return producer_waits_.load(); });
}

void Ring::restart() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    filled_ = freed_ = 0;
    held_ = closed_ = false;
    command_ = Command::fill;
  }
  producer_.notify_one();
}

void Ring::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    command_ = Command::stop;
  }
  producer_.notify_one();
}

int64_t Ring::acquire_free() {
  if (!may_fill() && !wait_for_free()) return -1;
  return static_cast<int64_t>(filled_.load(std::memory_order_relaxed) % slots_);
}

bool Ring::wait_for_free() {
  std::unique_lock<std::mutex> lock(mutex_);
  producer_waits_.store(true, std::memory_order_seq_cst);
  consumer_.notify_one();  // it may be waiting in pause()
  producer_.wait(lock, [&] {
    if (command_ == Command::stop) return true;
    const uint64_t full = filled_.load() - freed_.load(std::memory_order_seq_cst);
    return command_ == Command::fill && !closed_ && full <= wake_at_;
  });
  producer_waits_.store(false, std::memory_order_relaxed);
  return command_ != Command::stop;
}

void Ring::commit_filled() {
  filled_.store(filled_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (!consumer_waits_.load(std::memory_order_seq_cst)) return;
  { const std::lock_guard<std::mutex> lock(mutex_); }
  consumer_.notify_one();
}

void Ring::close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  consumer_.notify_one();
}

}  // namespace plait::data
