// A thread that runs tasks one after the other, in the order in which they were pushed.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace plait::kit {

class SerialWorker {
 public:
  class Task {
   public:
    virtual ~Task() = default;
    // On the worker's thread, which keeps all signals blocked. number: tasks that this worker has
    // run before.
    virtual void run(uint64_t number) noexcept = 0;

   private:
    friend class SerialWorker;
    bool in_flight_ = false;
    Task* next_ = nullptr;
  };

  SerialWorker();   // std::system_error where no thread can be started
  ~SerialWorker();  // runs all pushed tasks, then ends
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  void push(Task& task);  // a task that is not in flight; allocates nothing
  void wait(Task& task);  // until it is no longer in flight
  // The same; false after `most`.
  bool wait(Task& task, std::chrono::milliseconds most);

 private:
  void work() noexcept;
  std::mutex mutex_;
  std::condition_variable pushed_, done_;
  Task *head_ = nullptr, *tail_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace plait::kit
