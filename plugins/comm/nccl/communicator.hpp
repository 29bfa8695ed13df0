// One communicator of NCCL and the stream on which its calls run.
//
// NCCL works without blocking: a call may return before it has enqueued its work, and the
// communicator is asked until it has. So every wait ends when the group fails.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "plugins/comm/nccl/context.hpp"
#include "plugins/comm/nccl/failure.hpp"
#include "plugins/comm/nccl/library.hpp"

namespace plait::comm_nccl {

using Clock = std::chrono::steady_clock;

class Communicator {
 public:
  // What the communicators of a group have in common.
  struct Shared {
    const Library& nccl;
    CUcontext context;
    Failure& failure;
    std::string head;  // of messages: "[nccl] group 'data[0]'"
    std::string name;  // of the group, for NCCL's log
    int most_blocks;   // of a kernel of NCCL; 0: as NCCL chooses
  };

  // Creates the stream, and the thread of end(): when that is called there may be none to be had.
  // shared is borrowed. Errors: also PLAIT_ERR_IO where the system gives no thread.
  explicit Communicator(const Shared& shared);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // Connects the members; each of them calls it with the same id.
  // Errors: PLAIT_ERR_PEER after the deadline, with `missed`.
  void connect(const ncclUniqueId& id, uint32_t rank, uint32_t size, Clock::time_point deadline,
               const std::string& missed);
  // Calls f(comm), which puts work on the stream, and waits until NCCL has done so. what: for
  // messages. Throws the group's failure.
  template <class F>
  void enqueue(const std::string& what, Clock::time_point deadline, F&& f) {
    settle(enter([&](ncclComm_t comm) { return f(comm); }), what, deadline);
  }
  // The first exchange with a peer, of any memory. It makes connections, which allocates: no
  // capture may see that. Calls f(comm) as enqueue() does and waits until the GPU has done its
  // work. Errors: PLAIT_ERR_PEER after the deadline, with `late`.
  template <class F>
  void exchange_first(Clock::time_point deadline, const std::string& late, F&& f) {
    enqueue("the first exchange", deadline, std::forward<F>(f));
    wait_for_first(deadline, late);
  }
  CUstream stream() const { return stream_; }
  // An error that NCCL has noticed by itself; "" if none. Not after end().
  std::string fault(uint32_t& code) noexcept;

  // Begins to end the work on the stream and the communicator, on their own thread. The work ends
  // soon; the communicator ends when the graphs that hold its work have been closed.
  void end() noexcept;
  // Waits for that; false: it has not ended, and it is left alone, with its stream, from now on.
  bool ended_by(Clock::time_point deadline) noexcept;
  // Leaves in peace: waits until the other members no longer need this one.
  void finalize() noexcept;

 private:
  // What the thread of end() uses; it may outlive this object.
  struct Handle {
    explicit Handle(const Library& library) : nccl(library) {}
    const Library& nccl;
    ncclComm_t comm = nullptr;
    std::timed_mutex entered;  // held while a thread is inside NCCL
    std::mutex mutex;
    std::condition_variable changed;
    bool aborting = false, ended = false;  // under mutex
  };
  static void end_when_asked(Handle& handle) noexcept;
  template <class F>
  ncclResult_t enter(F&& f) {
    const std::lock_guard lock(handle_->entered);
    shared_.failure.check();
    return f(handle_->comm);
  }
  void settle(ncclResult_t r, const std::string& what, Clock::time_point deadline);
  void wait_for_first(Clock::time_point deadline, const std::string& late);
  ncclResult_t state() noexcept;
  [[noreturn]] void fail_with(ncclResult_t r, const std::string& what);
  std::string error_text(ncclResult_t r) const;

  const Shared& shared_;
  std::shared_ptr<Handle> handle_;
  CUstream stream_ = nullptr;
  std::atomic<bool> connected_{false};
  bool abandoned_ = false;
  std::thread ender_;
};

}  // namespace plait::comm_nccl
