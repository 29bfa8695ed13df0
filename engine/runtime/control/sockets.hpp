// Sockets and deadlines of the control channel. All sockets are non-blocking and closed on exec; no
// call raises SIGPIPE.
#pragma once

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kit/fd.hpp"

namespace plait::runtime::control {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

// `seconds` as a duration, limited to [0, one year] so that sums do not overflow.
Clock::duration to_duration(double seconds);
uint64_t milliseconds(double seconds);  // limited likewise
int poll_ms(Time until, Time now);      // for poll(): rounded up, at least 0

using kit::Fd;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};
std::string host_of(const Address& address);  // "10.0.0.1"
uint16_t port_of(const Address& address);
std::string text_of(const Address& address);  // "10.0.0.1:29400", "[::1]:29400"
std::string host_and_port(const std::string& host, uint16_t port);

// Every address of a host. Errors: PLAIT_ERR_IO with the reason. [blocks: name service]
std::vector<Address> resolve(const std::string& host, uint16_t port);
// The same for the rendezvous of a job. A name that resolves to loopback here (many systems map
// their own name so) means this machine's external address if other machines take part.
// one_machine: none do.
std::vector<Address> resolve_rendezvous_host(const std::string& host, uint16_t port,
                                             bool one_machine);
// The address at which other machines reach this one: that of its host name, or of its first
// interface if the name resolves to loopback only. Errors: PLAIT_ERR_IO.
Address address_of_machine();

// Listens at the first of the addresses that works. Errors: PLAIT_ERR_IO naming all of them.
Fd listen_at(const std::vector<Address>& addresses);
// The address at which this machine reaches a listening socket. Errors: PLAIT_ERR_INVALID if it
// does not listen.
Address address_of_listener(int fd);
Address address_of_peer(int fd);

// Connects until the deadline. Errors: PLAIT_ERR_IO.
Fd connect_to(const Address& address, Time deadline);
// Disables the delay of small messages; unacknowledged data breaks the connection after `timeout`
// seconds.
void configure_socket(int fd, double timeout);

// The result of a call on a non-blocking socket. done: bytes moved. closed: the connection has
// ended, why: "its connection was closed", ...
struct IoResult {
  size_t done = 0;
  bool closed = false;
  std::string why;
};
IoResult send_some(int fd, std::string_view bytes);
IoResult receive_some(int fd, char* buffer, size_t capacity);

// Wakes a thread that is blocked in poll().
class Waker {
 public:
  Waker();  // PLAIT_ERR_IO
  int fd() const { return fd_.get(); }
  void wake() const noexcept;
  void clear() const noexcept;

 private:
  Fd fd_;
};

}  // namespace plait::runtime::control
