// A thread that runs tasks one after the other, in the order in which they were pushed. Plugins
// have their own (plugins/comm/gloo/serial_worker.hpp), since engine and plugins share only the
// ABI.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace plait::runtime {

class SerialWorker {
 public:
  class Task {
   public:
    virtual ~Task() = default;
    virtual void run() noexcept = 0;  // on the worker's thread, which keeps all signals blocked

   private:
    friend class SerialWorker;
    bool in_flight_ = false;
    Task* next_ = nullptr;
  };

  SerialWorker();
  ~SerialWorker();  // runs all pushed tasks, then ends
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  void push(Task& task);  // a task that is not in flight; allocates nothing
  void wait(Task& task);  // until it is no longer in flight

 private:
  void work() noexcept;
  std::mutex mutex_;
  std::condition_variable pushed_, done_;
  Task *head_ = nullptr, *tail_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace plait::runtime
