#include "plugins/comm/gloo/lane.hpp"

#include "plugins/comm/gloo/sigpipe.hpp"

namespace plait::comm_gloo {

Lane::Lane() {
  const SigpipeBlock block(SigpipeBlock::What::kAll);
  thread_ = std::thread([this] { work(); });
}

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

bool Lane::wait(Job& job, std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, most, [&] { return !job.under_way_; });
}

void Lane::work() noexcept {
  std::unique_lock lock(mutex_);
  for (uint64_t number = 0;; ++number) {
    pushed_.wait(lock, [&] { return head_ || ends_; });
    if (!head_) return;
    Job& job = *head_;
    if (!(head_ = job.next_)) tail_ = nullptr;
    lock.unlock();
    job.run(number);
    lock.lock();
    job.under_way_ = false;
    done_.notify_all();
  }
}

}  // namespace plait::comm_gloo
