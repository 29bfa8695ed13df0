// Rank 0's side of the control channel: a thread that serves connections and keeps the state of the
// job.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/runtime/control.hpp"
#include "engine/runtime/control/acceptor.hpp"
#include "engine/runtime/control/connection.hpp"
#include "engine/runtime/control/job_state.hpp"

namespace plait::runtime::control {

struct ServerConfig {
  uint32_t size = 1;
  double connect_timeout = 60, timeout = 60;
  kit::Secret secret;
  std::string run;
  std::string where;  // for messages
  ControlTimes times = {};
};

class Server {
 public:
  // Serves on a listening socket, which the caller keeps. Errors: PLAIT_ERR_IO.
  Server(const ServerConfig& config, int listener, Log& log);
  // Waits until all connected ranks have left, at most `times.linger`.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  // How many ranks have connected so far, those that were refused because the job is over included.
  uint32_t met() const { return n_met_.load(); }

 private:
  struct Member {
    std::unique_ptr<Connection> connection;
    Time last_received{};
  };

  void run() noexcept;
  bool poll_once();
  void add_member(std::unique_ptr<Connection> connection, const Challenge& who,
                  const std::string& from);
  void receive_frames(uint32_t rank, Time now);
  void drop_member(uint32_t rank, const std::string& how);
  void heartbeat(Time now);
  void tell_missing();
  void send_all();
  bool is_finished(Time now);
  void watch(Time now);
  Time due(Time now) const;

  const ServerConfig config_;
  Log& log_;
  const Clock::duration interval_;
  std::vector<Member> members_;  // (R)
  std::vector<char> met_;        // (R)
  std::atomic<uint32_t> n_met_{0};
  JobState job_state_;
  Acceptor acceptor_;
  Waker waker_;
  std::vector<pollfd> fds_;
  // ranks of the descriptors after the first and before the acceptor's
  std::vector<uint32_t> ranks_;
  Time next_heartbeat_{}, notice_at_{}, close_deadline_{}, latecomer_deadline_{};
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

// Interval between heartbeats if `timeout` seconds of silence count as a loss; at most `longest`.
Clock::duration heartbeat_interval(double timeout, double longest);
// "it has been silent for 3 s; ..."
std::string silent_for(double timeout);

}  // namespace plait::runtime::control
