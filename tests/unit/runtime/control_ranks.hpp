// Ranks of a job for tests of the control channel: as threads, and as child processes.
#pragma once

#include <sys/types.h>

#include <functional>
#include <mutex>
#include <string>
#include <vector>

#include "engine/base/log.hpp"
#include "engine/runtime/control.hpp"

namespace plait::runtime::testing {

// A folder that only this user may write, removed with this object.
class Folder {
 public:
  Folder();
  ~Folder();
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  const std::string& text() const { return path_; }

 private:
  std::string path_;
};

// A log that keeps its lines. Thread-safe.
class Lines {
 public:
  Lines();
  Log& log() { return log_; }
  std::string all() const;
  bool has(const std::string& part) const;

 private:
  mutable std::mutex mutex_;
  std::string text_;
  Log log_;
};

bool has(const std::string& text, const std::string& part);

// The time-out of ranks in seconds.
struct Timeouts {
  double connect_timeout = 60, timeout = 60;
};

// The settings that the ranks share; rank r of `size`.
struct Setup {
  int size = 2;
  std::string rendezvous;
  std::string secret;
  int listen_fd = -1;
  Timeouts timeouts;
  ControlTimes times = {};
  ControlConfig of(int rank) const;
};
// Ranks that rendezvous through a file in the folder.
Setup in_file(const Folder& folder, int size, const Timeouts& timeouts = {});

// A socket that listens on loopback; sets `port`. The caller closes it.
int listen_on_loopback(int& port);
// A port that the system gives to no other process while this object lives. One that asks for
// exactly this port can still listen on it.
class FreePort {
 public:
  FreePort();
  ~FreePort();
  FreePort(const FreePort&) = delete;
  FreePort& operator=(const FreePort&) = delete;
  int number() const { return number_; }

 private:
  int number_ = 0, fd_;
};
// A plain connection to a port of loopback; -1 if refused.
int connect_to_port(int port);
// Whether the other end closes within `seconds`.
bool closes(int fd, double seconds);
void send_bytes(int fd, const std::string& bytes);
// Reads until there are `size` bytes or the connection ends.
std::string receive_bytes(int fd, size_t size);

// Calls f(rank) on a thread for each rank; returns the text of each exception, "" for none, with
// its code in `codes`.
std::vector<std::string> on_threads(const std::vector<int>& ranks,
                                    const std::function<void(int)>& f,
                                    std::vector<uint32_t>* codes = nullptr);

// A child process that runs f and exits; after an exception its status is 1. Killed with this
// object. Fork before creating threads.
class Child {
 public:
  explicit Child(const std::function<void()>& f);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  void signal(int number) const;
  pid_t id() const { return id_; }
  int wait();  // its exit status, or minus the signal that ended it

 private:
  pid_t id_ = -1;
};

// Waits until the condition is true, at most `seconds`.
bool eventually(const std::function<bool()>& holds, double seconds = 60);
// The reason given to on_end(); "" if there is none in time. Replaces the previous callback.
std::string wait_for_end(Control& control, double seconds = 60);

size_t count_descriptors();
size_t count_threads();

}  // namespace plait::runtime::testing
