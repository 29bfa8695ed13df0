// Why a group has failed. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <mutex>
#include <new>
#include <plait/plugin.hpp>
#include <string>
#include <string_view>
#include <utility>

namespace plait::comm_nccl {

class Failure {
 public:
  explicit operator bool() const { return set_.load(std::memory_order_acquire); }
  // The first reason stays. begun: the call that the GPU was at, "" if none.
  void set(uint32_t code, std::string_view text, std::string_view begun = {}) noexcept {
    const std::lock_guard lock(mutex_);
    if (set_.load(std::memory_order_relaxed)) return;
    code_ = code;
    try {
      text_ = text;
      if (text.find(begun) == std::string_view::npos) begun_ = begun;
    } catch (const std::bad_alloc&) {
      text_ = "out of memory";  // short enough for no allocation
    }
    since_ = std::chrono::steady_clock::now();
    set_.store(true, std::memory_order_release);
  }
  // When it failed. Only where it has.
  std::chrono::steady_clock::time_point since() const { return since_; }
  [[noreturn]] void throw_it() const { fail(code_, text_); }
  // The same as the cause of an error that names the call that the GPU was at: the host does not
  // see the calls of a graph.
  [[noreturn]] void throw_it(const Host& host, const std::string& head) const {
    if (begun_.empty()) throw_it();
    const std::string begun = head + " failed while the GPU was at " + begun_;
    const plait_host* h = host.raw();
    plait_error* cause = h->error_new(code_, text_.data(), text_.size(), nullptr);
    throw Error(h->error_new(code_, begun.data(), begun.size(), cause));
  }
  void check() const {
    if (*this) throw_it();
  }

 private:
  std::mutex mutex_;
  std::atomic<bool> set_{false};
  uint32_t code_ = 0;
  std::string text_, begun_;
  std::chrono::steady_clock::time_point since_;
};

}  // namespace plait::comm_nccl
