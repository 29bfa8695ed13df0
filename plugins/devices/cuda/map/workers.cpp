#include "plugins/devices/cuda/map/workers.hpp"

#include <algorithm>
#include <exception>

#include "plugins/support/thread.hpp"

namespace plait::cuda::map {

Workers::Workers(unsigned most)
    : most_(std::clamp(std::thread::hardware_concurrency(), 1u, std::max(most, 1u))) {
  threads_.reserve(most_);  // a thread that is started has a place
}

Workers::~Workers() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    tasks_.clear();
  }
  pushed_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void Workers::push(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    if (idle_ < tasks_.size() && threads_.size() < most_) start_one();
  }
  pushed_.notify_one();
}

// Where the system gives no more threads, those that run take the task.
void Workers::start_one() {
  try {
    threads_.push_back(support::start_thread("[cuda]", [this] { work(); }));
  } catch (const std::exception&) {
    if (!threads_.empty()) return;
    tasks_.pop_back();
    throw;
  }
}

void Workers::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    pushed_.wait(lock, [&] { return stopping_ || !tasks_.empty(); });
    --idle_;
    if (tasks_.empty()) return;
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
}

}  // namespace plait::cuda::map
