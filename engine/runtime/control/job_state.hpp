// The state of a job on rank 0: connected ranks, pending requests, and the reason for the end.
//
// Bytes and time are passed in: it has no socket, thread or clock, so a test or a fuzzer can drive
// it. R ranks.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/runtime/control/collective_order_check.hpp"
#include "engine/runtime/control/messages.hpp"
#include "engine/runtime/control/sockets.hpp"

namespace plait::runtime::control {

class JobState {
 public:
  // Sends complete frames to a rank, which may no longer be connected.
  using Send = std::function<void(uint32_t rank, const std::string& bytes)>;

  // size R; where: rank 0's address, for messages. leave_grace: seconds between the first rank that
  // leaves and the last.
  JobState(uint32_t size, double connect_timeout, std::string where, Time now, double leave_grace,
           Send send);

  // A connection has authenticated as `rank` of a job of `size` ranks. Returns a reason if the rank
  // must be refused.
  std::optional<EndReason> admit(uint32_t rank, uint32_t size);
  // Handles a message of a connected rank. Errors: PLAIT_ERR_DATA for an invalid one; the caller
  // must then call mark_lost().
  void handle(uint32_t rank, const Frame& frame, Time now);
  // The rank's connection has failed; how: "its connection was closed".
  void mark_lost(uint32_t rank, const std::string& how);
  // Handles time-outs; to be called at due() at the latest.
  void tick(Time now);
  Time due() const;
  // Rank 0 can no longer serve.
  void shut_down();

  bool is_connected(uint32_t rank) const {
    return ranks_[rank].connected;
  }  // admitted, and neither lost nor left
  uint32_t n_connected() const { return n_connected_; }
  bool is_waiting() const { return phase_ == JobPhase::kRendezvous && !all_arrived(); }
  // "rank 1, rank 3 of 5": those that have not arrived.
  std::string missing_names() const;
  bool all_arrived() const { return n_arrived_ == ranks_.size(); }
  int64_t step(uint32_t rank) const { return ranks_[rank].step; }  // -1: none begun

 private:
  enum class JobPhase { kRendezvous, kRunning, kOver };
  struct Rank {
    bool connected = false, ever_connected = false;  // now; at any time
    bool left = false;                               // said goodbye
    int64_t step = -1;
    uint64_t calls = 0;  // number of calls reported so far
    std::string call;    // the latest of them
    std::optional<Arrival> arrival;
    uint64_t asked_sections = 0;  // sections of its identity that it must send because ranks differ
    bool has_all_keys = false;    // has sent all of them
    IdentityKeys keys;
    std::map<uint32_t, std::string> waits;  // request -> key
  };
  struct Wait {
    uint32_t rank, request;
  };

  void arrive(uint32_t rank, const Frame& frame, Time now);
  void start();
  bool request_keys();
  void add_keys(uint32_t rank, const Frame& frame);
  void set(uint32_t rank, PayloadReader r);
  void get(uint32_t rank, PayloadReader r);
  void cancel(uint32_t rank, PayloadReader r);
  void withdraw(uint32_t rank, uint32_t request);
  void forget(PayloadReader r);
  void begin_call(uint32_t rank, PayloadReader r);
  void compare_calls(uint32_t rank, const Frame& frame);
  void add_call_description(uint32_t rank, PayloadReader r);
  void goodbye(uint32_t rank, Time now);
  void disconnect(uint32_t rank);
  void reply(uint32_t rank, uint32_t request, uint32_t code, std::string_view text);
  void end(uint32_t code, std::string text);

  std::string name(uint32_t rank) const;
  std::string missing() const;
  std::string duplicate_host_names() const;
  std::string differences() const;

  const double connect_timeout_, leave_grace_;
  const std::string where_;
  const Send send_;
  JobPhase phase_ = JobPhase::kRendezvous;
  EndReason end_;
  Time join_deadline_;
  std::optional<Time> leave_deadline_;  // time by which the others must follow a rank that left
  uint32_t first_left_ = 0;
  uint32_t n_connected_ = 0, n_arrived_ = 0;
  // ranks unlike rank 0; ranks that have not answered yet
  uint32_t n_differing_ = 0, n_pending_keys_ = 0;
  std::vector<Rank> ranks_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::vector<Wait>> waits_;
  CollectiveOrderCheck order_check_;
  std::optional<CollectiveOrderCheck::Difference>
      desync_;                 // two ranks that were asked for their calls
  std::string call_texts_[2];  // their answers
  size_t bytes_ = 0;           // total size of values_ and keys
};

// The last known state of a lost rank: "; it ran as process 12 on HOST and was last heard of in
// step 3".
std::string last_seen(const std::string& host, uint64_t process_id, int64_t step);

// "" or the fault of a key.
std::string key_error(std::string_view key);

}  // namespace plait::runtime::control
