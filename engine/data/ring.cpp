#include "engine/data/ring.hpp"

namespace plait::data {

int64_t Ring::take() {
  uint64_t freed = freed_.load(std::memory_order_relaxed);
  if (held_) {
    held_ = false;
    freed_.store(++freed, std::memory_order_seq_cst);
    const uint64_t full = filled_.load(std::memory_order_seq_cst) - freed;
    if (full <= wake_at_ && filler_rests_.load(std::memory_order_seq_cst)) wake_filler();
  }
  if (filled_.load(std::memory_order_acquire) == freed) {
    std::unique_lock<std::mutex> lock(mutex_);
    taker_waits_.store(true, std::memory_order_seq_cst);
    taker_.wait(lock, [&] { return filled_.load(std::memory_order_seq_cst) != freed || halted_; });
    taker_waits_.store(false, std::memory_order_relaxed);
    if (filled_.load(std::memory_order_acquire) == freed) return -1;
  }
  held_ = true;
  return static_cast<int64_t>(freed % slots_);
}

void Ring::wake_filler() {
  { const std::lock_guard<std::mutex> lock(mutex_); }  // it is either asleep or has yet to look
  filler_.notify_one();
}

void Ring::pause() {
  std::unique_lock<std::mutex> lock(mutex_);
  order_ = Order::pause;
  taker_.wait(lock, [&] { return filler_rests_.load(); });
}

void Ring::restart() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    filled_ = freed_ = 0;
    held_ = halted_ = false;
    order_ = Order::fill;
  }
  filler_.notify_one();
}

void Ring::stop() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    order_ = Order::stop;
  }
  filler_.notify_one();
}

int64_t Ring::room() {
  if (!may_fill() && !rest()) return -1;
  return static_cast<int64_t>(filled_.load(std::memory_order_relaxed) % slots_);
}

bool Ring::rest() {
  std::unique_lock<std::mutex> lock(mutex_);
  filler_rests_.store(true, std::memory_order_seq_cst);
  taker_.notify_one();  // it may be in pause()
  filler_.wait(lock, [&] {
    if (order_ == Order::stop) return true;
    const uint64_t full = filled_.load() - freed_.load(std::memory_order_seq_cst);
    return order_ == Order::fill && !halted_ && full <= wake_at_;
  });
  filler_rests_.store(false, std::memory_order_relaxed);
  return order_ != Order::stop;
}

void Ring::filled() {
  filled_.store(filled_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  if (!taker_waits_.load(std::memory_order_seq_cst)) return;
  { const std::lock_guard<std::mutex> lock(mutex_); }
  taker_.notify_one();
}

void Ring::halt() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    halted_ = true;
  }
  taker_.notify_one();
}

}  // namespace plait::data
