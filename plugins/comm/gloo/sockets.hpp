// Sockets and deadlines, which Gloo does not expose.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "kit/fd.hpp"

namespace plait::comm_gloo {

using Clock = std::chrono::steady_clock;

// `seconds` from now; at most a year, so that it does not overflow.
Clock::time_point after(double seconds);

using kit::Fd;

// The address this rank listens on: the address of `interface`, if given; else loopback if all
// members share a machine; else the address of the route to the first other machine. Throws
// PLAIT_ERR_CONFIG or PLAIT_ERR_IO.
std::string listen_address(const std::string& interface, const std::string& own_host,
                           const std::vector<std::string>& hosts);

// One of Gloo's connections, as the listening addresses of both sides: one of them is still an
// endpoint. In Gloo's byte format.
struct Connection {
  std::vector<char> own, other;
};
// A second descriptor of each connection's socket, which stays open when Gloo closes its own; empty
// where no such socket exists. The sockets are tuned (a dead route is noticed within `timeout`
// seconds) and not inherited by child processes.
std::vector<Fd> duplicate_sockets(const std::vector<Connection>& connections, double timeout);

// Whether the other end has closed or reset the connection and all its data has been read.
bool peer_closed(int fd);

}  // namespace plait::comm_gloo
