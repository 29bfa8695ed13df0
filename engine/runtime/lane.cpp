#include "engine/runtime/lane.hpp"

#include "engine/base/thread.hpp"

namespace plait::runtime {

Lane::Lane() : thread_(start_thread([this] { work(); })) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

void Lane::push(Job& job) {
  {
    const std::lock_guard lock(mutex_);
    job.under_way_ = true;
    job.next_ = nullptr;
    (tail_ ? tail_->next_ : head_) = &job;
    tail_ = &job;
  }
  pushed_.notify_one();
}

void Lane::wait(Job& job) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !job.under_way_; });
}

void Lane::work() noexcept {
  std::unique_lock lock(mutex_);
  for (;;) {
    pushed_.wait(lock, [&] { return head_ || ends_; });
    if (!head_) return;
    Job& job = *head_;
    if (!(head_ = job.next_)) tail_ = nullptr;
    lock.unlock();
    job.run();
    lock.lock();
    job.under_way_ = false;
    done_.notify_all();
  }
}

}  // namespace plait::runtime
