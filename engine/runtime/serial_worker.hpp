// A thread that carries out tasks one after the other, in the order they were pushed. A plugin that needs one has its own
// (plugins/comm/gloo/serial_worker.hpp): engine and plugins share only the ABI.
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
  ~SerialWorker();  // carries out what was pushed, then ends
  SerialWorker(const SerialWorker&) = delete;
  SerialWorker& operator=(const SerialWorker&) = delete;

  void push(Task& task);  // one that is not in flight; takes no memory
  void wait(Task& task);  // until it is no longer under way

 private:
  void work() noexcept;
  std::mutex mutex_;
  std::condition_variable pushed_, done_;
  Task *head_ = nullptr, *tail_ = nullptr;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace plait::runtime
