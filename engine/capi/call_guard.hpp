// Enforces the tag [thread: owner] of plait.h: one thread at a time inside an object. No lock, one
// atomic exchange per call.
#pragma once

#include <atomic>
#include <optional>
#include <string>

#include "engine/base/call_watch.hpp"
#include "engine/base/error.hpp"

namespace plait::capi {

// How often this process is a fork of a fork: it changes in the child alone.
unsigned fork_depth() noexcept;
// Throws PLAIT_ERR_STATE: the object is the parent's.
[[noreturn]] void refuse_foreign(const char* function, const char* what);

// The thread inside an object. Any thread.
class CallGuard {
 public:
  // Whether the object was made before a fork() of which this process is the child: threads and
  // connections of it are the parent's, and a call could wait for ever.
  bool is_foreign() const noexcept { return made_at_ != fork_depth(); }

  // Whether a callback of one call may make another call on the same object.
  enum class Nested { kRefused, kAllowed };

  // Begins a call. `function` is a literal. Throws PLAIT_ERR_STATE when the object is in use.
  // Returns true for the outer call, which ends with end(); a nested call ends with end_nested().
  bool begin(const char* function, const char* what, const void* handle, Nested nested);
  // True if close() was called while the call ran: the caller now owns the object.
  [[nodiscard]] bool end(const char* function) noexcept;
  void end_nested() noexcept { in_callback_ = true; }

  // True: no call is in progress and the caller closes the object. False: the call in progress
  // closes it when it ends, or the object is the parent's: this process has but a copy of its
  // memory.
  [[nodiscard]] bool close() noexcept {
    return !is_foreign() && running_.exchange(kClosing, std::memory_order_acq_rel) == nullptr;
  }

  // Exists while the host's callback runs, which may make the calls that allow nesting. Created by
  // the thread inside.
  class Callback {
   public:
    explicit Callback(CallGuard& guard) : guard_(guard) { guard_.in_callback_ = true; }
    Callback(const Callback&) = delete;
    Callback& operator=(const Callback&) = delete;
    ~Callback() { guard_.in_callback_ = false; }

   private:
    CallGuard& guard_;
  };

 private:
  static constexpr const char kClosing[] = "close";
  // An address that is different for each thread; cheaper to compare than its id.
  static const void* me() noexcept {
    static thread_local char here;
    return &here;
  }

  const unsigned made_at_ = fork_depth();
  std::atomic<const char*> running_{nullptr};  // name of the running function
  std::atomic<const void*> thread_{nullptr};   // me() of the thread inside; NULL before and after
  bool in_callback_ = false;                   // accessed only by the thread inside
};

inline bool CallGuard::begin(const char* function, const char* what, const void* handle,
                             Nested nested) {
  if (is_foreign()) refuse_foreign(function, what);
  const char* inside = nullptr;
  if (running_.compare_exchange_strong(inside, function, std::memory_order_acq_rel)) {
    thread_.store(me(), std::memory_order_relaxed);
    return true;
  }
  // Only this thread can have stored its own address, so a concurrent store by another thread does
  // not matter.
  const bool mine = thread_.load(std::memory_order_relaxed) == me();
  if (mine && in_callback_ && nested == Nested::kAllowed && inside != kClosing) {
    in_callback_ = false;
    return false;
  }
  char address[32];
  __builtin_snprintf(address, sizeof address, "%p", handle);
  const std::string where = std::string("[capi] ") + function + "() on " + what + " " + address;
  if (inside == kClosing)
    fail(PLAIT_ERR_STATE, where + ", which is being closed; do not use it any more");
  if (mine)
    fail(PLAIT_ERR_STATE, where + " from inside a callback of " + inside +
                              "() on the same one; call it after " + inside + "() has returned");
  fail(PLAIT_ERR_STATE, where + " while another thread is inside " + inside + "(); one " + what +
                            " serves one thread at a time: wait for that call to return, or put " +
                            "a lock around both");
}

inline bool CallGuard::end(const char* function) noexcept {
  thread_.store(nullptr, std::memory_order_relaxed);
  in_callback_ = false;
  return !running_.compare_exchange_strong(function, nullptr, std::memory_order_acq_rel);
}

// One call of the C API on an object that has a member `guard`. Deletes the object at the end if
// close() was called meanwhile.
template <class Object>
class ApiCall {
 public:
  ApiCall(Object& object, const char* function, const char* what,
          CallGuard::Nested nested = CallGuard::Nested::kRefused)
      : object_(object),
        function_(function),
        outer_(object.guard.begin(function, what, &object, nested)),
        thread_(mark_of(object)) {}
  ApiCall(const ApiCall&) = delete;
  ApiCall& operator=(const ApiCall&) = delete;
  ~ApiCall() {
    thread_.reset();  // before the object goes
    if (!outer_)
      object_.guard.end_nested();
    else if (object_.guard.end(function_))
      delete &object_;
  }

 private:
  static CallMark* mark_of(const Object& object) {
    if constexpr (requires { object.watched(); }) return object.watched();
    return t_call_mark;
  }
  Object& object_;
  const char* function_;
  const bool outer_;
  std::optional<WatchedThread> thread_;
};

}  // namespace plait::capi
