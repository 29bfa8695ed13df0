// Sockets and deadlines, which Gloo does not expose.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "kit/fd.hpp"

namespace plait::comm_gloo {

using Clock = std::chrono::steady_clock;

// Throws PLAIT_ERR_IO: `what`, and the text of errno.
[[noreturn]] void fail_io(const std::string& what);

// Unpredictable. Throws PLAIT_ERR_IO.
std::string random_bytes(size_t n);

// `seconds` from now; at most a year, so that it does not overflow.
Clock::time_point after(double seconds);

using kit::Fd;

// The address this rank listens on: the address of `interface`, if given; else loopback if all
// members share a machine; else the address of the route to the first other machine. Throws
// PLAIT_ERR_CONFIG or PLAIT_ERR_IO.
std::string listen_address(const std::string& interface, const std::string& own_host,
                           const std::vector<std::string>& hosts);

// A socket that listens, and its address as bytes that other ranks connect to.
struct Listener {
  Fd socket;
  std::string address;
};
// Listens on a free port of `address` (numeric). Non-blocking. Throws PLAIT_ERR_IO.
Listener listen_on(const std::string& address);
// The next connection, non-blocking; empty if there is none. Throws PLAIT_ERR_IO.
Fd accept_connection(int listener);
// A non-blocking socket that connects to a Listener::address. `error`: errno if that failed at
// once, else 0, and connect_error() says how it ended once the socket is writable. Throws
// PLAIT_ERR_IO.
Fd start_connecting(const std::string& address, int& error);
int connect_error(int socket);  // errno; 0: it is connected
// Small messages are sent at once, and a dead route is noticed within `timeout` seconds.
void tune(int socket, double timeout);

// Gloo's format of an address.
std::vector<char> gloo_address(const std::string& address);
// The descriptors of this process whose sockets have the IPv4 addresses `own` (R; in Gloo's
// format) and the address `other` at their other end ("": none, they listen). -1 where there is
// none.
std::vector<int> find_sockets(const std::vector<std::vector<char>>& own, const std::string& other);

// "10.0.0.2:4711", the address of the other end; "" if it is not known any more.
std::string text_of_peer(int fd);

// Whether the other end has closed or reset the connection and all its data has been read.
bool peer_closed(int fd);

}  // namespace plait::comm_gloo
