// A thread that carries out jobs one after the other, in the order they were pushed. A group has one for its collectives, which come
// in the same order everywhere, and one per peer and direction for messages: so no call waits behind one it has nothing to do with.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>

namespace plait::comm_gloo {

class Job {
 public:
  virtual ~Job() = default;
  // On the lane's thread, which keeps all signals blocked. `number`: how many jobs came before on this lane.
  virtual void run(uint64_t number) noexcept = 0;

 private:
  friend class Lane;
  bool under_way_ = false;
  Job* next_ = nullptr;
};

class Lane {
 public:
  Lane();
  ~Lane();  // carries out what was pushed, then ends
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  void push(Job& job);  // one that is not under way
  // True once it is no longer under way; false when `most` has passed.
  bool wait(Job& job, std::chrono::milliseconds most);

 private:
  void work() noexcept;
  std::mutex mutex_;
  std::condition_variable pushed_, done_;
  Job *head_ = nullptr, *tail_ = nullptr;
  bool ends_ = false;
  std::thread thread_;
};

}  // namespace plait::comm_gloo
