// Threads that run tasks side by side, in the order in which they come.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace plait::cuda::map {

class Workers {
 public:
  // Starts threads as tasks come, at most as many as the machine has cores, and at most `most`.
  explicit Workers(unsigned most);
  // Drops the tasks that have not begun, and waits for the others.
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;
  // A task throws nothing. Any thread. Errors: PLAIT_ERR_IO where not even one thread can be
  // started; the task is then dropped.
  void push(std::function<void()> task);

 private:
  void start_one();  // for the newest task, under the lock
  void work();

  const size_t most_;
  std::mutex mutex_;
  std::condition_variable pushed_;
  std::deque<std::function<void()>> tasks_;
  size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace plait::cuda::map
