// Accepts connections for rank 0 and passes on those that authenticate as ranks of the job.
//
// Any process may connect: a port scanner, a browser, an earlier run, an attacker. No payload byte
// is exchanged before both sides have proven that they know the secret; a connection that does not
// do so in time, or sends anything else, is dropped with a line in the log.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/connection.hpp"

namespace plait::runtime::control {

// Log lines caused by unauthenticated connections: the first few, then a count.
class RateLimitedLog {
 public:
  explicit RateLimitedLog(Log& log) : log_(log) {}
  ~RateLimitedLog() { log_rest(); }
  RateLimitedLog(const RateLimitedLog&) = delete;
  RateLimitedLog& operator=(const RateLimitedLog&) = delete;
  void add(const std::string& text, Time now);

 private:
  void log_rest() noexcept;

  Log& log_;
  Time since_{};
  unsigned logged_ = 0, dropped_ = 0;
};

class Acceptor {
 public:
  // Takes the connection and its verified challenge. May throw: then only this connection is
  // dropped.
  using OnAdmitted = std::function<void(std::unique_ptr<Connection> connection,
                                        const Challenge& who, const std::string& from)>;

  // The listening socket is borrowed and made non-blocking. timeout: seconds for a connection to
  // authenticate. Errors: PLAIT_ERR_IO.
  Acceptor(int listener, kit::Secret secret, std::string run, double timeout, Log& log,
           OnAdmitted on_admitted);

  // Appends its descriptors for poll(); serve() reads the results from the same position on.
  void watch(std::vector<pollfd>& fds, Time now) const;
  void serve(const std::vector<pollfd>& fds, size_t first, Time now);
  Time due(Time now) const;  // the time of the next serve(), whatever poll() reports
  RateLimitedLog& refusal_log() { return refusal_log_; }

 private:
  struct PendingConnection {
    std::unique_ptr<Connection> connection;
    std::string from;
    Time since;
    bool greeted = false, gone = false;
    Challenge challenge;
  };

  void accept_pending(Time now);
  void evict_oldest(Time now);
  static bool is_overdue(const PendingConnection& pending, Time now);
  static Clock::duration limit(
      const PendingConnection& pending);  // how long it may stay when all slots are taken
  bool has_capacity(Time now) const;
  void receive_frames(PendingConnection& pending, Time now);
  void answer(PendingConnection& pending, const Frame& frame);
  void admit(PendingConnection& pending, const Frame& frame);
  void drop(PendingConnection& pending, const std::string& why, Time now);

  const int listener_;
  const kit::Secret secret_;
  const std::string run_;
  const double timeout_;
  const OnAdmitted on_admitted_;
  RateLimitedLog refusal_log_;
  std::list<PendingConnection> pending_;  // oldest first
  Time paused_until_{};  // e.g. when out of descriptors: retrying at once would not help
};

}  // namespace plait::runtime::control
