// Notices calls into plugins that do not return. Nothing can end such a call from outside: a
// thread names it in the log, and tells the host when it has taken longer than the host allows.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/base/log.hpp"

namespace plait {

class CallWatch;
struct PluginCall;

// The plugin call that one thread is in. No two threads share a mark at the same time.
class CallMark {
 public:
  // limit: seconds that a call may take; 0: no limit. Borrows the watch.
  CallMark(CallWatch& watch, double limit) noexcept;
  ~CallMark();
  CallMark(const CallMark&) = delete;
  CallMark& operator=(const CallMark&) = delete;
  // With the watch and limit of the calling thread's mark, for a thread that works for it; nullptr
  // if the calling thread is not watched.
  static std::unique_ptr<CallMark> like_own();

  // Of the thread that is watched: enters a call, which is borrowed until leave(), and returns the
  // one around it. Neither takes a lock nor reads a clock.
  const PluginCall* enter(const PluginCall& call) noexcept {
    const PluginCall* const outer = call_.load(std::memory_order_relaxed);
    count();
    call_.store(&call, std::memory_order_release);
    return outer;
  }
  void leave(const PluginCall* outer) noexcept {
    call_.store(outer, std::memory_order_seq_cst);
    count();
    // The watch copies the names of a call rarely, and only while it has announced that: it either
    // sees that this call is over, or this thread sees the announcement.
    while (reading_.load(std::memory_order_seq_cst)) std::this_thread::yield();
  }

 private:
  friend class CallWatch;
  void count() noexcept {
    entered_.store(entered_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }

  CallWatch& watch_;
  const double limit_;
  std::atomic<const PluginCall*> call_{nullptr};
  std::atomic<uint64_t> entered_{0};  // changes with each call: an address may come again
  std::atomic<bool> reading_{false};

  // Of the watch, under its lock.
  uint64_t seen_ = 0;
  double seconds_ = 0;  // that the call `seen_` has taken
  double next_ = 0;     // when it is mentioned next
  bool late_ = false;   // the limit was reported
  CallMark* before_ = nullptr;
  CallMark* after_ = nullptr;
};

// The mark of this thread, or nullptr.
extern constinit thread_local CallMark* t_call_mark;

// Calls of this thread are watched by `mark`, if there is one, until the end of the scope.
class WatchedThread {
 public:
  explicit WatchedThread(CallMark* mark) noexcept : before_(std::exchange(t_call_mark, mark)) {}
  ~WatchedThread() { t_call_mark = before_; }
  WatchedThread(const WatchedThread&) = delete;
  WatchedThread& operator=(const WatchedThread&) = delete;

 private:
  CallMark* const before_;
};

// A call into a plugin, from here to the end of the scope.
class WatchedCall {
 public:
  explicit WatchedCall(const PluginCall& call) noexcept : mark_(t_call_mark) {
    if (mark_) outer_ = mark_->enter(call);
  }
  ~WatchedCall() {
    if (mark_) mark_->leave(outer_);
  }
  WatchedCall(const WatchedCall&) = delete;
  WatchedCall& operator=(const WatchedCall&) = delete;

 private:
  CallMark* const mark_;
  const PluginCall* outer_ = nullptr;
};

// Thread-safe. One thread, from the first mark on, which sleeps but for a look each second, or more
// often where a limit is short. A call
// that waits for other ranks ("backend") has a limit of its own, topology.timeout, and is not
// mentioned. Time in which the process was stopped does not count.
class CallWatch {
 public:
  // Called on the thread of the watch, once for each call that has reached the limit, with the
  // line that the log has.
  using Late = std::function<void(const std::string& text)>;
  static constexpr double kFirst = 30;
  // first: seconds after which a call is mentioned, and again whenever that time has doubled.
  explicit CallWatch(Log& log, Late late = {}, double first = kFirst)
      : log_(log), late_(std::move(late)), first_(first) {}
  ~CallWatch();
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

 private:
  friend class CallMark;
  struct Line {
    std::string text;
    bool late;
  };
  void add(CallMark& mark) noexcept;
  void remove(CallMark& mark) noexcept;
  void work();
  double interval() const;
  std::vector<Line> look(double seconds);
  bool look_at(CallMark& mark, double seconds, Line& line) const;

  Log& log_;
  const Late late_;
  const double first_;
  struct Own {
    std::mutex mutex;
    std::condition_variable changed;
    std::thread thread;
  };
  std::unique_ptr<Own> own_ = std::make_unique<Own>();
  CallMark* marks_ = nullptr;
  bool stop_ = false;
  int process_ = 0;  // that the thread belongs to; 0: there is none yet
};

}  // namespace plait
