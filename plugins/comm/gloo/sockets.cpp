#include "plugins/comm/gloo/sockets.hpp"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <gloo/transport/tcp/address.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <plait/plugin.hpp>

namespace plait::comm_gloo {

namespace tcp = ::gloo::transport::tcp;

namespace {

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* raw() const { return reinterpret_cast<const sockaddr*>(&storage); }
  sockaddr* raw() { return reinterpret_cast<sockaddr*>(&storage); }
};

[[noreturn]] void fail_io(const std::string& what) {
  fail(PLAIT_ERR_IO, "[gloo] " + what + ": " + std::strerror(errno));
}

std::string text_of(const Address& address) {
  char text[NI_MAXHOST];
  if (getnameinfo(address.raw(), address.size, text, sizeof text, nullptr, 0, NI_NUMERICHOST))
    fail(PLAIT_ERR_IO, "[gloo] cannot format an address of this machine");
  return text;
}

Address resolve(const std::string& host) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  const int rc = getaddrinfo(host.c_str(), "9", &hints, &found);
  if (rc != 0)
    fail(PLAIT_ERR_CONFIG, "[gloo] host '" + host + "' has no address: " + gai_strerror(rc) +
                               "; use host names that every machine can resolve");
  Address address;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  address.size = found->ai_addrlen;
  freeaddrinfo(found);
  return address;
}

std::string address_of_interface(const std::string& name) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all)) fail_io("cannot list the network interfaces");
  std::string known, found;
  for (const int family : {AF_INET, AF_INET6})
    for (const ifaddrs* one = all; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != family) continue;
      known += (known.empty() ? "" : ", ") + std::string(one->ifa_name);
      if (name != one->ifa_name || !found.empty()) continue;
      Address address;
      address.size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address.storage, one->ifa_addr, address.size);
      found = text_of(address);
    }
  freeifaddrs(all);
  if (found.empty())
    fail(PLAIT_ERR_CONFIG, "[gloo] interface '" + name +
                               "' does not exist or has no address; known are: " + known +
                               "; correct 'interface'");
  return found;
}

// No packet is sent: connecting a datagram socket only looks up the route.
std::string address_of_route(const std::string& host) {
  const Address to = resolve(host);
  const Fd probe(socket(to.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  Address own;
  own.size = sizeof own.storage;
  if (!probe || connect(probe.get(), to.raw(), to.size) ||
      getsockname(probe.get(), own.raw(), &own.size))
    fail_io("found no route to host '" + host + "'");
  return text_of(own);
}

}  // namespace

Clock::time_point after(double seconds) {
  const auto wait = std::chrono::duration<double>(std::clamp(seconds, 0.0, 3.2e7));
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(wait);
}

std::string listen_address(const std::string& interface, const std::string& own_host,
                           const std::vector<std::string>& hosts) {
  if (!interface.empty()) return address_of_interface(interface);
  for (const std::string& host : hosts)
    if (host != own_host) return address_of_route(host);
  return "127.0.0.1";
}

namespace {

// Compares address and port; the rest of the structures is padding.
bool equal(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    const auto &x = reinterpret_cast<const sockaddr_in&>(a),
               &y = reinterpret_cast<const sockaddr_in&>(b);
    return x.sin_port == y.sin_port && x.sin_addr.s_addr == y.sin_addr.s_addr;
  }
  const auto &x = reinterpret_cast<const sockaddr_in6&>(a),
             &y = reinterpret_cast<const sockaddr_in6&>(b);
  return x.sin6_port == y.sin6_port && !std::memcmp(&x.sin6_addr, &y.sin6_addr, 16);
}

std::vector<int> open_descriptors() {
  std::vector<int> all;
  DIR* folder = opendir("/proc/self/fd");
  if (!folder) fail_io("cannot list the open descriptors");
  while (const dirent* entry = readdir(folder))
    if (const int fd = std::atoi(entry->d_name); fd > 2 && fd != dirfd(folder)) all.push_back(fd);
  closedir(folder);
  return all;
}

void tune(int fd, double timeout) {
  const int on = 1;
  const auto patience = static_cast<unsigned>(std::clamp(timeout, 1.0, 3600.0) * 1000);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);  // milliseconds
}

}  // namespace

std::vector<Fd> duplicate_sockets(const std::vector<Connection>& connections, double timeout) {
  std::vector<Fd> sockets(connections.size());
  for (const int fd : open_descriptors()) {
    Address own, other;
    own.size = other.size = sizeof own.storage;
    if (getsockname(fd, own.raw(), &own.size) || getpeername(fd, other.raw(), &other.size))
      continue;
    for (size_t i = 0; i < sockets.size(); ++i) {
      const Connection& one = connections[i];
      if (one.own.empty()) continue;
      const bool listened = equal(own.storage, tcp::Address(one.own).getSockaddr());
      if (!listened && !equal(other.storage, tcp::Address(one.other).getSockaddr())) continue;
      fcntl(fd, F_SETFD, FD_CLOEXEC);
      tune(fd, timeout);
      sockets[i] = Fd(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    }
  }
  return sockets;
}

bool peer_closed(int fd) {
  pollfd one{fd, POLLRDHUP, 0};
  if (poll(&one, 1, 0) <= 0 || !(one.revents & (POLLRDHUP | POLLHUP | POLLERR))) return false;
  int unread = 0;
  return ioctl(fd, FIONREAD, &unread) != 0 || unread == 0;
}

}  // namespace plait::comm_gloo
