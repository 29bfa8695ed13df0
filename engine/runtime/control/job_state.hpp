// The state of a job as rank 0 knows it: who is there, who waits for which value, and why the job is over.
//
// Bytes and time come from outside: it has no socket, thread or clock, so a test or a fuzzer can drive it. R ranks.
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
  // Takes whole frames for a rank, which may have no connection any more.
  using Send = std::function<void(uint32_t rank, const std::string& bytes)>;

  // size R; where: what ranks are to reach, for messages.
  JobState(uint32_t size, double connect_timeout, std::string where, Time now, Send send);

  // Somebody has proven to be `rank` of a job of `size` ranks. Returns why it must go again, if it must.
  std::optional<EndReason> admit(uint32_t rank, uint32_t size);
  // A message of a rank that is here. Errors: PLAIT_ERR_DATA for one that makes no sense; then the rank is to be mark_lost().
  void handle(uint32_t rank, const Frame& frame, Time now);
  // The rank's connection is of no use any more: "its connection was closed".
  void mark_lost(uint32_t rank, const std::string& how);
  // Looks what is due; to be called at due() at the latest.
  void tick(Time now);
  Time due() const;
  // Rank 0 can serve no longer.
  void shut_down();

  bool is_connected(uint32_t rank) const {
    return ranks_[rank].connected;
  }  // admitted, and neither lost nor gone
  uint32_t n_connected() const { return n_connected_; }
  bool all_arrived() const { return n_arrived_ == ranks_.size(); }
  int64_t step(uint32_t rank) const { return ranks_[rank].step; }  // -1: none begun

 private:
  enum class Phase { kRendezvous, kRunning, kOver };
  struct Rank {
    bool connected = false, ever_connected = false;  // now; at some time
    bool left = false;                               // said goodbye
    int64_t step = -1;
    uint64_t calls = 0;  // that it has said it made
    std::string call;    // the last of them
    std::optional<Arrival> arrival;
    uint64_t asked_sections =
        0;  // sections of its identity that it is to say, since ranks differ there
    bool has_all_keys = false;  // has said all of them
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
  void cancel(uint32_t rank, uint32_t request);
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

  const double connect_timeout_;
  const std::string where_;
  const Send send_;
  Phase phase_ = Phase::kRendezvous;
  EndReason end_;
  Time join_deadline_;
  std::optional<Time> leave_deadline_;  // by when the others must have followed a rank that left
  uint32_t first_left_ = 0;
  uint32_t n_connected_ = 0, n_arrived_ = 0;
  uint32_t n_differing_ = 0, n_pending_keys_ = 0;  // ranks unlike rank 0; asked, and not told yet
  std::vector<Rank> ranks_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::vector<Wait>> waits_;
  CollectiveOrderCheck order_check_;
  std::optional<CollectiveOrderCheck::Difference>
      desync_;                 // two ranks that were asked for their calls
  std::string call_texts_[2];  // what they answered
  size_t bytes_ = 0;           // in values_, and keys of ranks
};

// What a lost rank was last seen at: "; it ran as process 12 on HOST and was last heard of in step 3".
std::string last_seen(const std::string& host, uint64_t process_id, int64_t step);

// "" or what is wrong with a key.
std::string key_error(std::string_view key);

}  // namespace plait::runtime::control
