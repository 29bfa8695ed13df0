// How the ranks of a group get rank 0's file, which has no name in any file system: over a socket
// of the machine, which ends with the process, so that nothing is left however it ends.
//
// Rank 0 publishes an invitation to the members in the job's store. It names a socket (abstract,
// unguessable) and holds a key of the group; rank 0 gives the file to processes of its user that
// send the key. Where ranks have other networks, and so other sockets, they open the file through
// /proc, which needs a common PID name space. [thread: one at a time]
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "kit/fd.hpp"

namespace plait::comm_shm {

class FileServer {
 public:
  // Listens; fd: the file, which stays open meanwhile. Throws PLAIT_ERR_IO.
  explicit FileServer(int fd);

  const std::string& invitation() const { return invitation_; }
  // Waits at most that long for a member, and gives the file to those that are there.
  void serve(std::chrono::milliseconds most);
  uint32_t served() const { return served_; }

 private:
  bool hand_over(int connection) const;

  int fd_;
  std::string invitation_, key_;
  kit::Fd socket_;
  uint32_t served_ = 0;
};

// Takes the file that an invitation is for. keep_waiting is called every few milliseconds and
// throws to end it. Throws std::runtime_error with the reason where there is no file.
kit::Fd accept_file(const std::string& invitation, const std::function<void()>& keep_waiting);

}  // namespace plait::comm_shm
