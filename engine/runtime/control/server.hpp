// Rank 0's side of the control channel: a thread that listens, and keeps the board.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/runtime/control/board.hpp"
#include "engine/runtime/control/door.hpp"
#include "engine/runtime/control/line.hpp"

namespace plait::runtime::control {

struct ServerConfig {
  uint32_t size = 1;
  double connect_timeout = 60, timeout = 60;
  std::string secret, run;
  std::string where;  // for messages
};

class Server {
 public:
  // Serves on a listening socket, which stays the caller's. Errors: PLAIT_ERR_IO.
  Server(const ServerConfig& config, int listener, Log& log);
  // Waits until all ranks that have come are gone again, at most 5 s.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

 private:
  struct Member {
    std::unique_ptr<Line> line;
    Time heard{};
  };

  void run() noexcept;
  bool turn();
  void enter(std::unique_ptr<Line> line, const Challenge& who, const std::string& from);
  void hear(uint32_t rank, Time now);
  void lose(uint32_t rank, const std::string& how);
  void beat(Time now);
  void send_all();
  bool over(Time now);
  void watch(Time now);
  Time due(Time now) const;

  const ServerConfig config_;
  Log& log_;
  const Clock::duration interval_;
  std::vector<Member> members_;  // (R)
  Board board_;
  Door door_;
  Waker waker_;
  std::vector<pollfd> fds_;
  std::vector<uint32_t> ranks_;  // of the descriptors behind the first and before the door's
  Time next_beat_{}, close_until_{}, late_until_{};
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

// How often either side says that it lives, where silence of `timeout` seconds is a loss.
Clock::duration beat_interval(double timeout);
// "has said nothing for 3 s; ..."
std::string silent_for(double timeout);

}  // namespace plait::runtime::control
