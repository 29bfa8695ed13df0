// A backend for memory of the device `async`: calls are work of its queues, made by the backend
// `threads` behind it.
#pragma once

#include <plait/comm.h>

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "plugins/comm/threads/group.hpp"
#include "tests/async_device/queue.hpp"

namespace async_device {

inline Queue& queue_of(plait_queue* q) { return *reinterpret_cast<Queue*>(q); }

class Group {
 public:
  class Call {
   public:
    Call(Group& group, const plait_comm_desc& desc);
    // Work of a queue, or recorded by it.
    void start(plait_queue* queue);
    void finish(plait_queue* queue);

   private:
    // Where the queue is: it passes a call that fails, and what comes after.
    template <class F>
    void attempt(F&& f) noexcept;
    Group& group_;
    std::unique_ptr<plait::comm_threads::ProcessGroup::Call> inner_;
    bool under_way_ = false;  // of the queue's thread
  };

  Group(const plait::Host& host, const plait::Options& options, const plait_comm_setup& setup);
  void abort(std::string_view text) noexcept { inner_.abort(text); }
  void status();

 private:
  Device& device_;
  const uint64_t size_;
  std::mutex mutex_;
  std::string failure_;
  plait::comm_threads::ProcessGroup inner_;
};

}  // namespace async_device
