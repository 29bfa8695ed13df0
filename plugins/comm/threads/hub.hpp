// Where the ranks of one group meet: calls are matched here, cut into pieces, and carried out by the ranks' own threads.
//
// Nobody ever waits inside a call: a piece is handed out only when every rank has started, and is then plain work on memory. So no
// order of finish() among several groups can lock up.
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

struct Op;

// One prepared call of one rank. Everything but the first block is guarded by the hub's lock.
struct Call {
  Call(uint32_t r, const plait_comm_desc& d, std::string what, uint32_t size)
      : rank(r), desc(d), text(std::move(what)), rows(size) {}
  const uint32_t rank;
  const plait_comm_desc desc;
  const std::string text;         // for messages
  std::vector<const void*> rows;  // (R) scratch of this rank's piece

  enum class State { kIdle, kStarted, kMatched, kDone };
  State state = State::kIdle;
  uint64_t place = 0;  // how many collectives its rank had started before
  Clock::time_point deadline;
  Op* op = nullptr;      // once matched
  Call* next = nullptr;  // in the queue it waits in
};

// Calls in order; no memory of its own.
class CallQueue {
 public:
  bool empty() const { return !head_; }
  void push(Call& call);
  Call* pop();  // NULL when empty
  void clear() { head_ = tail_ = nullptr; }

 private:
  Call *head_ = nullptr, *tail_ = nullptr;
};

// Calls of all ranks that belong together.
struct Op {
  std::vector<Call*> members;  // (R) by rank; of a message: sender, receiver
  uint32_t left = 0;           // pieces not yet done
  uint32_t running = 0;        // pieces being done now
};

class Hub {
 public:
  explicit Hub(const comm_support::Members& first);

  // Takes a member's place. Throws PLAIT_ERR_PEER when the group has failed or the place is taken.
  void join(const comm_support::Members& member);
  // Waits until all have joined; throws PLAIT_ERR_PEER naming the missing.
  void wait_for_all(const comm_support::Members& member, double seconds);
  void leave(uint32_t rank) noexcept;
  // Carries out pieces of this rank until it leaves: the body of its thread.
  void work(uint32_t rank) noexcept;

  void reserve();  // room for one more call; before it is started
  void start(Call& call, double timeout);
  void finish(Call& call);
  // Before a call's memory goes: a call under way ends the group.
  void forget(Call& call) noexcept;
  void abort(std::string_view text) noexcept;

 private:
  using Lock = std::unique_lock<std::mutex>;
  enum class Presence { kExpected, kHere, kLeft };

  void fail_locked(std::string text) noexcept;
  [[noreturn]] void throw_failure() const;
  void refuse_absent(const Call& call);
  void enqueue_message(Call& call);
  void enqueue_collective(Call& call);
  void match_collective();
  void begin(Op& op);
  void complete(Op& op);
  void run_piece(Lock& lock, Call& call) noexcept;
  std::string overdue(const Call& call) const;
  bool absent(const Call& call, uint32_t rank) const;
  std::string list(Presence presence) const;
  void wake_all();

  const std::string head_;  // "[threads] group 'data[0]'"
  const uint32_t size_;

  mutable std::mutex mutex_;
  std::deque<std::condition_variable> wake_;  // (R)
  std::vector<std::string> names_;
  std::vector<Presence> presence_;
  std::vector<uint64_t> started_;    // (R) collectives
  std::vector<CallQueue> waiting_;   // (R) collectives not yet matched
  std::vector<CallQueue> sends_;     // (R, R) from, to; not yet matched
  std::vector<CallQueue> receives_;  // (R, R) from, to
  std::vector<CallQueue> ready_;     // (R) calls whose piece that rank is to do
  std::deque<Op> ops_;               // as many as there are calls
  std::vector<Op*> free_;
  std::string failure_;
  std::atomic<bool> failed_{false};  // read without the lock between parts of a piece
};

}  // namespace plait::comm_threads
