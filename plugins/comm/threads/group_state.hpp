// State that the ranks of one group share: calls are matched here, split into chunks and run by the
// ranks' own threads.
//
// No call ever blocks while it runs: a chunk is handed out only when every rank has started, and is
// then plain work on memory. So no order of finish() among several groups can deadlock.
#pragma once

#include <plait/comm.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "plugins/comm/members.hpp"

namespace plait::comm_threads {

using Clock = std::chrono::steady_clock;

struct MatchedCalls;

// One prepared call of one rank. Everything after the first block is guarded by the group's lock.
struct PendingCall {
  PendingCall(uint32_t r, const plait_comm_desc& d, std::string what, uint32_t size)
      : rank(r), desc(d), text(std::move(what)), rows(size) {}
  const uint32_t rank;
  const plait_comm_desc desc;
  const std::string text;         // for messages
  std::vector<const void*> rows;  // (R) scratch memory for this rank's chunk

  enum class State { kIdle, kStarted, kMatched, kDone };
  State state = State::kIdle;
  uint64_t index = 0;  // collectives that its rank had started before
  Clock::time_point deadline;
  MatchedCalls* matched = nullptr;  // set when the call is matched
  PendingCall* next = nullptr;      // next call in the same queue
};

// Calls in order; allocates no memory.
class CallQueue {
 public:
  bool empty() const { return !head_; }
  void push(PendingCall& call);
  PendingCall* pop();  // NULL when empty
  void clear() { head_ = tail_ = nullptr; }

 private:
  PendingCall *head_ = nullptr, *tail_ = nullptr;
};

// The matching calls of all ranks.
struct MatchedCalls {
  std::vector<PendingCall*> members;  // (R) by rank; of a message: sender, receiver
  uint32_t left = 0;                  // chunks that are not done
  uint32_t running = 0;               // chunks that are running
};

class GroupState {
 public:
  explicit GroupState(const comm_support::Members& first);

  // Registers a member. Throws PLAIT_ERR_PEER if the group has failed or the rank has joined
  // already.
  void join(const comm_support::Members& member);
  // Waits until all members have joined; throws PLAIT_ERR_PEER naming the missing ones.
  void wait_for_all(const comm_support::Members& member, double seconds);
  void leave(uint32_t rank) noexcept;
  // Processes chunks of this rank until it leaves: the body of its thread.
  void run_worker(uint32_t rank) noexcept;

  void reserve();  // makes space for one more call; call it before the start
  void start(PendingCall& call, double timeout);
  void finish(PendingCall& call);
  // Call it before the memory of a call is freed: a call in flight ends the group.
  void cancel(PendingCall& call) noexcept;
  void abort(std::string_view text) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class Presence { kExpected, kJoined, kLeft };

  void fail_locked(std::string text) noexcept;
  [[noreturn]] void throw_failure() const;
  void check_present(const PendingCall& call);
  void enqueue_message(PendingCall& call);
  void enqueue_collective(PendingCall& call);
  void match_collective();
  void begin(MatchedCalls& matched);
  void complete(MatchedCalls& matched);
  void execute_chunk(Lock& lock, PendingCall& call) noexcept;
  std::string overdue(const PendingCall& call) const;
  bool absent(const PendingCall& call, uint32_t rank) const;
  std::string list(Presence presence) const;
  void wake_all();

  const std::string head_;  // "[threads] group 'data[0]'"
  const uint32_t size_;

  mutable std::mutex mutex_;
  std::deque<std::condition_variable> wake_;  // (R)
  std::vector<std::string> names_;
  std::vector<Presence> presence_;
  std::vector<uint64_t> started_;     // (R) collectives
  std::vector<CallQueue> waiting_;    // (R) collectives not yet matched
  std::vector<CallQueue> sends_;      // (R, R) from, to; not matched yet
  std::vector<CallQueue> receives_;   // (R, R) from, to
  std::vector<CallQueue> ready_;      // (R) calls whose chunk that rank is to process
  std::deque<MatchedCalls> matched_;  // one for each prepared call
  std::vector<MatchedCalls*> free_;
  std::string failure_;
  std::atomic<bool> failed_{false};  // read without the lock between parts of a chunk
};

}  // namespace plait::comm_threads
