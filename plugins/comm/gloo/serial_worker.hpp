// A thread that carries out tasks one after the other, in the order they were pushed. A group has one for its collectives, which come
// in the same order everywhere, and one per peer and direction for messages: so no call waits behind an unrelated one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace plait::comm_gloo {

class Task {
 public:
  virtual ~Task() = default;
  // On the worker's thread, which keeps all signals blocked. `number`: how many tasks came before on this worker.
  virtual void run(uint64_t number) noexcept = 0;

 private:
  friend class SerialWorker;
  bool pending_ = false;
  Task* next_ = nullptr;
};

class SerialWorker {
 public:
  SerialWorker();
  ~SerialWorker();  // carries out what was pushed, then ends
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  void push(Task& task);  // one that is not under way
  // True once it is no longer under way; false when `most` has passed.
  bool wait(Task& task, std::chrono::milliseconds most);

 private:
  void work() noexcept;
  std::mutex mutex_;
  std::condition_variable pushed_, done_;
  Task *head_ = nullptr, *tail_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace plait::comm_gloo
