// A thread that executes tasks one at a time, in the order of push(). A group has one worker for
// its collectives, whose order is the same on all ranks, and one per peer and direction for
// messages, so that no call waits behind an unrelated one.
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
  // Runs on the worker's thread, which blocks all signals. `number`: tasks that this worker has
  // executed before.
  virtual void run(uint64_t number) noexcept = 0;

 private:
  friend class SerialWorker;
  bool pending_ = false;
  Task* next_ = nullptr;
};

class SerialWorker {
 public:
  SerialWorker();
  ~SerialWorker();  // executes all pushed tasks, then ends
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  void push(Task& task);  // a task that is not pending
  // True once the task has completed; false after `most`.
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
