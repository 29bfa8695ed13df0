// How the ranks of a group get rank 0's file, which has no name in any file system: over a socket
// of the machine, which ends with the process, so that nothing is left however it ends.
//
// Rank 0 publishes an invitation to the members in the job's store. It names a socket (abstract:
// any process of the machine may list and connect to it) and holds the group's key; rank 0 gives
// the file to processes of its user that send the key. Ranks in other network namespaces, which
// have other sockets, open the file through /proc, which needs a common PID namespace.
// [thread: one at a time]
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kit/fd.hpp"

namespace plait::comm_shm {

class FileServer {
 public:
  // Listens; fd: the file, which stays open meanwhile. key: hexadecimal text that only the members
  // know. Throws PLAIT_ERR_IO.
  FileServer(int fd, std::string key);

  const std::string& invitation() const { return invitation_; }
  // Waits at most that long, accepts at most one connection, and gives the file to connections that
  // have sent the key. Others are left open until they do, or end. A signal ends the wait. Throws
  // PLAIT_ERR_IO if this process can serve nobody.
  void serve(std::chrono::milliseconds most);
  uint32_t served() const { return served_; }

 private:
  struct Connection {
    kit::Fd socket;
    std::string received;
  };
  void accept_one();
  bool is_done(Connection& connection);

  int fd_;
  std::string invitation_, key_;
  kit::Fd socket_;
  std::vector<Connection> connections_;  // in the order of their arrival
  uint32_t served_ = 0;
};

struct ReceivedFile {
  kit::Fd fd;
  std::string key;  // of the group, which the file must have, too
};

// Takes the file that an invitation is for; connects again where a connection ends. keep_waiting is
// called every few milliseconds and throws to end it. Throws std::runtime_error with the reason
// where there is no file.
ReceivedFile accept_file(const std::string& invitation, const std::function<void()>& keep_waiting);

}  // namespace plait::comm_shm
