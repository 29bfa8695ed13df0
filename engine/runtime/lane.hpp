// A thread that carries out jobs one after the other, in the order they were pushed. A plugin that needs one has its own
// (plugins/comm/gloo/lane.hpp): engine and plugins share only the ABI.
#pragma once

#include <condition_variable>
#include <mutex>
#include <thread>

namespace plait::runtime {

class Lane {
 public:
  class Job {
   public:
    virtual ~Job() = default;
    virtual void run() noexcept = 0;  // on the lane's thread, which keeps all signals blocked

   private:
    friend class Lane;
    bool under_way_ = false;
    Job* next_ = nullptr;
  };

  Lane();
  ~Lane();  // carries out what was pushed, then ends
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void push(Job& job);  // one that is not under way; takes no memory
  void wait(Job& job);  // until it is no longer under way

 private:
  void work() noexcept;
  std::mutex mutex_;
  std::condition_variable pushed_, done_;
  Job *head_ = nullptr, *tail_ = nullptr;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace plait::runtime
