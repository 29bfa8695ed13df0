// The end of a job and its reason; the callback runs once.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "engine/runtime/control/messages.hpp"

namespace plait::runtime::control {

// Thread-safe; no lock is held while others are called.
class JobTermination {
 public:
  using EndCallback = std::function<void(const std::string& reason)>;

  // wake: called before anybody else when the end comes; must not throw.
  explicit JobTermination(std::function<void()> wake) : wake_(std::move(wake)) {}

  // The first end counts; returns whether this was it. Exceptions of what it calls are dropped.
  bool set(EndReason end) noexcept;
  // Because of what this side of the channel could not go on with, whatever there is memory for to say.
  void fail(const char* why) noexcept;
  // What is to be called at the end, in place of what was; at once when the end has come. Empty: nothing. Is back only when nothing
  // of this is running on another thread.
  void on_end(EndCallback call);
  EndReason get() const;  // code PLAIT_OK while the job goes on

 private:
  void run(std::unique_lock<std::mutex>& lock);

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  EndReason end_;
  EndCallback call_;
  std::thread::id runs_on_;  // the thread that is inside a call
};

}  // namespace plait::runtime::control
