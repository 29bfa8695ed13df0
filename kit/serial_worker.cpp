#include "kit/serial_worker.hpp"

#include "kit/thread.hpp"

namespace plait::kit {

SerialWorker::SerialWorker() : thread_(start_thread([this] { work(); })) {}

SerialWorker::~SerialWorker() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  pushed_.notify_one();
  thread_.join();
}

void SerialWorker::push(Task& task) {
  {
    const std::lock_guard lock(mutex_);
    task.in_flight_ = true;
    task.next_ = nullptr;
    (tail_ ? tail_->next_ : head_) = &task;
    tail_ = &task;
  }
  pushed_.notify_one();
}

void SerialWorker::wait(Task& task) {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return !task.in_flight_; });
}

bool SerialWorker::wait(Task& task, std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, most, [&] { return !task.in_flight_; });
}

void SerialWorker::work() noexcept {
  std::unique_lock lock(mutex_);
  for (uint64_t number = 0;; ++number) {
    pushed_.wait(lock, [&] { return head_ || stopping_; });
    if (!head_) return;
    Task& task = *head_;
    if (!(head_ = task.next_)) tail_ = nullptr;
    lock.unlock();
    task.run(number);
    lock.lock();
    task.in_flight_ = false;
    done_.notify_all();
  }
}

}  // namespace plait::kit
