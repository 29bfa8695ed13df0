// The door of rank 0: takes connections in, and lets through who proves to be a rank of the job.
//
// Anybody may knock: a port scanner, a browser, an earlier run, somebody who means harm. Nobody gets a payload byte before both
// sides have proven that they know the secret; who does not within 5 s, or sends anything else, is dropped with a line in the log.
#pragma once

#include <poll.h>

#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/runtime/control/auth.hpp"
#include "engine/runtime/control/line.hpp"

namespace plait::runtime::control {

// Log lines that strangers cause: a few of them, then a count.
class Complaints {
 public:
  explicit Complaints(Log& log) : log_(log) {}
  ~Complaints() { log_rest(); }
  Complaints(const Complaints&) = delete;
  Complaints& operator=(const Complaints&) = delete;
  void add(const std::string& text, Time now);

 private:
  void log_rest() noexcept;

  Log& log_;
  Time since_{};
  unsigned logged_ = 0, dropped_ = 0;
};

class Door {
 public:
  // Gets the line and what its other end has proven. May throw: then only this line is dropped.
  using Enter = std::function<void(std::unique_ptr<Line> line, const Challenge& who,
                                   const std::string& from)>;

  // The listening socket is borrowed, and made non-blocking. Errors: PLAIT_ERR_IO.
  Door(int listener, std::string secret, std::string run, Log& log, Enter enter);

  // Adds what it wants to know to a call of poll(), and takes what came of it, from the same place on.
  void watch(std::vector<pollfd>& fds, Time now) const;
  void serve(const std::vector<pollfd>& fds, size_t first, Time now);
  Time due(Time now) const;  // when serve() has something to do whatever poll() says
  Complaints& complaints() { return complaints_; }

 private:
  struct Visitor {
    std::unique_ptr<Line> line;
    std::string from;
    Time since;
    bool greeted = false, gone = false;
    Challenge challenge;
  };

  void accept_some(Time now);
  void make_room(Time now);
  static bool is_late(const Visitor& visitor, Time now);
  static Clock::duration limit(
      const Visitor& visitor);  // how long it may stay when there is no room
  bool has_room(Time now) const;
  void hear(Visitor& visitor, Time now);
  void answer(Visitor& visitor, const Frame& frame);
  void admit(Visitor& visitor, const Frame& frame);
  void drop(Visitor& visitor, const std::string& why, Time now);

  const int listener_;
  const std::string secret_, run_;
  const Enter enter_;
  Complaints complaints_;
  std::list<Visitor> visitors_;  // oldest first
  Time rest_until_{};            // out of descriptors, say: no use to ask at once again
};

}  // namespace plait::runtime::control
