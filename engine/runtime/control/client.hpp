// The client side of the control channel: a thread that talks to rank 0, and the calls that wait
// for its replies.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/runtime/control.hpp"
#include "engine/runtime/control/connection.hpp"
#include "engine/runtime/control/identity_check.hpp"
#include "engine/runtime/control/job_termination.hpp"
#include "engine/runtime/control/join.hpp"

namespace plait::runtime::control {

class Client {
 public:
  // Sends this rank's arrival. Errors: PLAIT_ERR_IO.
  Client(const ControlConfig& config, JoinedServer joined, Time deadline, Log& log);
  // Says goodbye.
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Waits until all ranks have arrived. Errors: rank 0's reason; PLAIT_ERR_PEER when it is silent.
  // [blocks: yes]
  std::vector<Peer> wait_for_ranks();
  void set(const std::string& key, std::string_view value);
  std::string get(const std::string& key, double seconds);
  std::optional<std::string> get_within(const std::string& key, double seconds);
  void forget(const std::string& key);
  void abort(std::string_view text) noexcept;
  void at_step(int64_t step) noexcept { step_.store(step, std::memory_order_relaxed); }
  void begin_call(const char* what) noexcept {
    call_.store(nullptr, std::memory_order_release);
    calls_.fetch_add(1, std::memory_order_release);
    call_.store(what, std::memory_order_release);
  }
  void watch(const std::string& group, const CollectiveLog& calls);
  void unwatch() noexcept;
  JobTermination& termination() { return termination_; }
  const JobTermination& termination() const { return termination_; }

 private:
  struct Answer {
    bool arrived = false;
    uint32_t code = 0;
    std::string bytes;
  };

  Answer ask(MessageKind kind, const std::string& key, std::string_view value, Time deadline,
             bool& late);
  [[noreturn]] void fail_ended(const char* what, const std::string& key) const;
  void run() noexcept;
  void poll_once();
  std::string flush();
  void receive_frames();
  void handle(const Frame& frame);
  void answer(const Frame& frame);
  void introduce(const Frame& frame);
  void describe_call(PayloadReader r);
  void watch_server(Time now);
  std::string heartbeat();
  void lose_rank_0(const std::string& how, bool tell);
  void finish(EndReason end);
  void leave();

  const Job job_;
  const std::string name_;
  const Identity identity_;
  const double timeout_;
  // between heartbeats; the silence after which rank 0 is lost
  const Clock::duration interval_, silence_;
  const Time report_deadline_;
  Log& log_;
  const JoinedServer joined_;
  Waker waker_;
  JobTermination termination_;
  std::atomic<int64_t> step_{-1};
  std::atomic<uint64_t> calls_{0};          // number of calls so far
  std::atomic<const char*> call_{nullptr};  // the latest of them; NULL during an update
  std::atomic<bool> leaving_{false}, broken_{false};

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  std::string out_;  // frames to be sent by the thread
  std::unordered_map<uint32_t, Answer*> asked_;
  uint32_t last_request_ = 0;
  std::vector<Peer> peers_;
  bool started_ = false;

  std::mutex watch_mutex_;
  std::map<std::string, const CollectiveLog*> watched_;  // by group

  // Used by the thread only.
  bool closed_ = false;
  // rank 0 is lost because of its silence: it will not answer a goodbye
  bool server_silent_ = false;
  Time last_received_{}, next_heartbeat_{};
  int64_t step_of_rank_0_ = -1;
  Introduction rank_0_;

  std::thread thread_;
};

}  // namespace plait::runtime::control
