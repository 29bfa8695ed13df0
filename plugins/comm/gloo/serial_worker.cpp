#include "plugins/comm/gloo/serial_worker.hpp"

#include "plugins/comm/gloo/sigpipe.hpp"

namespace plait::comm_gloo {

SerialWorker::SerialWorker() {
  const SigpipeBlock block(SigpipeBlock::What::kAll);
  thread_ = std::thread([this] { work(); });
}

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
    task.pending_ = true;
    task.next_ = nullptr;
    (tail_ ? tail_->next_ : head_) = &task;
    tail_ = &task;
  }
  pushed_.notify_one();
}

bool SerialWorker::wait(Task& task, std::chrono::milliseconds most) {
  std::unique_lock lock(mutex_);
  return done_.wait_for(lock, most, [&] { return !task.pending_; });
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
    task.pending_ = false;
    done_.notify_all();
  }
}

}  // namespace plait::comm_gloo
