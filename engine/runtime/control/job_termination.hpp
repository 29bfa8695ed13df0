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

// Thread-safe; no lock is held during callbacks.
class JobTermination {
 public:
  using EndCallback = std::function<void(const std::string& reason)>;

  // wake: called before any callback when the job ends; must not throw.
  explicit JobTermination(std::function<void()> wake) : wake_(std::move(wake)) {}

  // The first call sets the reason; returns true for that call. Exceptions of callbacks are
  // dropped.
  bool set(EndReason end) noexcept;
  // Ends the job because this side of the channel failed with the exception in flight: its text as
  // far as memory allows, and PLAIT_ERR_MEMORY where it does not. Only inside a catch block.
  void fail() noexcept;
  // Replaces the callback for the end; if the job has already ended, it is called immediately.
  // Empty: no callback. Returns only when no callback is running on another thread.
  void on_end(EndCallback call);
  EndReason get() const;  // code PLAIT_OK while the job runs

 private:
  void run(std::unique_lock<std::mutex>& lock);

  const std::function<void()> wake_;
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  EndReason end_;
  EndCallback call_;
  std::thread::id runs_on_;  // the thread inside a callback
};

}  // namespace plait::runtime::control
